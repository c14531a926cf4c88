"""Column types: exact text and JSON kept as text.

JSON is text rather than jsonb or JSON so that arguments come back as they were given (1e20 stays a float, -0.0 keeps
its sign, keys keep their order) and are not parsed again by the database on every move between tables.
"""

from __future__ import annotations

import json
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from .payload import decode


def exact_collation(connection: BaseDatabaseWrapper) -> str | None:
    """The collation under which only equal texts are equal: queue "A" is not "a", and "a " is not "a"."""
    if connection.vendor == "postgresql":
        return "C"
    if connection.vendor == "mysql":
        return "utf8mb4_nopad_bin" if connection.mysql_is_mariadb else "utf8mb4_0900_bin"  # type: ignore[attr-defined]
    return None


class ExactCharField(models.CharField):  # type: ignore[type-arg]
    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        return super().db_parameters(connection) | {"collation": exact_collation(connection)}


class ExactTextField(models.TextField):  # type: ignore[type-arg]
    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        return super().db_parameters(connection) | {"collation": exact_collation(connection)}


class Unreadable(str):
    """A text that should be JSON and is not: somebody wrote it by hand. It is shown and moved as it is."""


def read(text: str | None) -> Any:
    """The value of a JSON column; a spoilt one must not hide the row that holds it."""
    if text is None:
        return None
    try:
        return decode(text)
    except (ValueError, RecursionError):
        return Unreadable(text)


class JSONTextField(ExactTextField):
    """A JSON value; None is NULL."""

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        return read(value)

    def get_prep_value(self, value: Any) -> Any:
        if value is None or isinstance(value, Unreadable) or hasattr(value, "resolve_expression"):
            return value
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    def value_to_string(self, obj: models.Model) -> Any:
        return self.get_prep_value(self.value_from_object(obj))

    def to_python(self, value: Any) -> Any:
        return read(value) if isinstance(value, str) else value


class CanonicalJSONField(JSONTextField):
    """A JSON value whose text can be compared: equal values are equal texts."""

    def get_prep_value(self, value: Any) -> Any:
        text = super().get_prep_value(value)
        if not isinstance(text, str) or isinstance(value, Unreadable):
            return text
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


class JSONLinesField(ExactTextField):
    """A list of JSON values, one per line, so that a statement can append to it without reading it."""

    def from_db_value(self, value: str, expression: Any, connection: Any) -> list[Any]:
        return lines(value)

    def get_prep_value(self, value: Any) -> Any:
        if hasattr(value, "resolve_expression"):
            return value
        return "".join(f"{_line(item)}\n" for item in value)

    def to_python(self, value: Any) -> Any:
        return lines(value) if isinstance(value, str) else value


class WordsField(ExactTextField):
    """A list of words without commas, each followed by one, so that a statement can append and take away."""

    def from_db_value(self, value: str, expression: Any, connection: Any) -> list[str]:
        return words(value)

    def get_prep_value(self, value: Any) -> Any:
        if hasattr(value, "resolve_expression"):
            return value
        return "".join(f"{word}," for word in value)

    def to_python(self, value: Any) -> Any:
        return words(value) if isinstance(value, str) else value


def lines(text: str) -> list[Any]:
    return [read(line) for line in text.split("\n") if line]


def _line(item: Any) -> str:
    return item if isinstance(item, Unreadable) else json.dumps(item, ensure_ascii=False, separators=(",", ":"))


def words(text: str) -> list[str]:
    return text.split(",")[:-1]
