"""Field types (exact text, JSON stored as text), index and constraint classes, and an operation that adds an index.

JSON is text rather than jsonb or JSON so that arguments are read back as they were given (1e20 stays a float, -0.0
keeps its sign, keys keep their order) and are not parsed again by the database on every move between tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.operations import AddIndex
from django.db.migrations.state import ProjectState
from django.db.models import Q

from .core.payload import decode, decode_typed, encode_typed


def exact_collation(connection: BaseDatabaseWrapper) -> str | None:
    """Return the collation that compares texts exactly: queue "A" is not "a", and "a " is not "a"."""
    if connection.vendor == "postgresql":
        return "C"
    if connection.vendor == "mysql":
        return "utf8mb4_nopad_bin" if connection.mysql_is_mariadb else "utf8mb4_0900_bin"  # type: ignore[attr-defined]
    return None


class ExactCharField(models.CharField):  # type: ignore[type-arg]
    """A CharField that is compared exactly on every database."""

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        return super().db_parameters(connection) | {"collation": exact_collation(connection)}


class ExactTextField(models.TextField):  # type: ignore[type-arg]
    """A TextField that is compared exactly on every database."""

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        return super().db_parameters(connection) | {"collation": exact_collation(connection)}


class Unreadable(str):
    """A text that is not valid JSON, for example after a manual change. It is displayed and moved unchanged."""


def read(text: str | None, decode: Callable[[str], Any] = decode) -> Any:
    """Return the value of a JSON column, or the Unreadable text, so that one bad value does not hide its row."""
    if text is None:
        return None
    try:
        return decode(text)
    except (ValueError, RecursionError):
        return Unreadable(text)


def read_typed(text: str | None) -> Any:
    """Return the value of a column of arguments or results, or the Unreadable text."""
    return read(text, decode_typed)


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


class ArgumentsField(JSONTextField):
    """Arguments or a result: JSON and the types of `core.tags`. Model instances are read as ModelReferences."""

    def deconstruct(self) -> Any:
        """Name the base class, whose column is the same."""
        name, _, args, kwargs = super().deconstruct()
        return name, f"{JSONTextField.__module__}.{JSONTextField.__qualname__}", args, kwargs

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        return read_typed(value)

    def get_prep_value(self, value: Any) -> Any:
        if value is None or isinstance(value, Unreadable) or hasattr(value, "resolve_expression"):
            return value
        return encode_typed(value, self.name)

    def to_python(self, value: Any) -> Any:
        return read_typed(value) if isinstance(value, str) else value


class CanonicalJSONField(JSONTextField):
    """A JSON value stored such that equal values are equal texts, so that SQL can compare them."""

    def get_prep_value(self, value: Any) -> Any:
        text = super().get_prep_value(value)
        if not isinstance(text, str) or isinstance(value, Unreadable):
            return text
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


class JSONLinesField(ExactTextField):
    """A list of JSON values, one per line, so that SQL can append to it without parsing it."""

    def from_db_value(self, value: str, expression: Any, connection: Any) -> list[Any]:
        return lines(value)

    def get_prep_value(self, value: Any) -> Any:
        if hasattr(value, "resolve_expression"):
            return value
        return "".join(f"{_dump_line(item)}\n" for item in value)

    def to_python(self, value: Any) -> Any:
        return lines(value) if isinstance(value, str) else value


class WordsField(ExactTextField):
    """A list of words, each followed by a comma, so that SQL can append and remove a word."""

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


def _dump_line(item: Any) -> str:
    return item if isinstance(item, Unreadable) else json.dumps(item, ensure_ascii=False, separators=(",", ":"))


def words(text: str) -> list[str]:
    return text.split(",")[:-1]


NO_OPERATION = "DO 0"  # a statement of MariaDB without effect: Django executes what an index returns


class StatusIndex(models.Index):
    """A partial index on the rows of one status; without partial indexes (MariaDB), status is its first column."""

    def __init__(self, *, status: str, fields: list[str], name: str) -> None:
        self.status = status
        super().__init__(fields=fields, name=name)

    def deconstruct(self) -> Any:
        path, args, kwargs = super().deconstruct()
        return path, args, {**kwargs, "status": self.status}

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **kwargs: Any) -> Any:
        if schema_editor.connection.features.supports_partial_indexes:
            plain = models.Index(fields=self.fields, name=self.name, condition=Q(status=self.status))
        else:
            plain = models.Index(fields=["status", *self.fields], name=self.name)
        return plain.create_sql(model, schema_editor, using, **kwargs)


class PartialStatusIndex(StatusIndex):
    """A StatusIndex that does not exist without partial indexes, where it would slow down rows of other statuses."""

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **kwargs: Any) -> Any:
        if not schema_editor.connection.features.supports_partial_indexes:
            return NO_OPERATION
        return super().create_sql(model, schema_editor, using, **kwargs)

    def remove_sql(self, model: Any, schema_editor: Any, **kwargs: Any) -> Any:
        if not schema_editor.connection.features.supports_partial_indexes:
            return NO_OPERATION
        return super().remove_sql(model, schema_editor, **kwargs)


class PermitIndex(models.Index):
    """An index on the jobs that hold a permit of their limit key; it does not exist without partial indexes."""

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **kwargs: Any) -> Any:
        if not schema_editor.connection.features.supports_partial_indexes:
            return NO_OPERATION
        condition = Q(limit_key__isnull=False, status__in=["pending", "claimed"])
        plain = models.Index(fields=self.fields, name=self.name, condition=condition)
        return plain.create_sql(model, schema_editor, using, **kwargs)

    def remove_sql(self, model: Any, schema_editor: Any, **kwargs: Any) -> Any:
        if not schema_editor.connection.features.supports_partial_indexes:
            return NO_OPERATION
        return super().remove_sql(model, schema_editor, **kwargs)


class UniqueWhereSet(models.UniqueConstraint):
    """A unique constraint on the rows whose last field is not NULL; MariaDB treats NULLs as distinct anyway."""

    def __init__(self, *, fields: list[str], name: str, **kwargs: Any) -> None:
        super().__init__(fields=fields, name=name, **kwargs)

    def _conditional(self, schema_editor: Any) -> models.UniqueConstraint:
        condition = None
        if schema_editor.connection.features.supports_partial_indexes:
            condition = Q(**{f"{self.fields[-1]}__isnull": False})
        return models.UniqueConstraint(fields=self.fields, name=self.name, condition=condition)

    def constraint_sql(self, model: Any, schema_editor: Any) -> Any:
        return self._conditional(schema_editor).constraint_sql(model, schema_editor)

    def create_sql(self, model: Any, schema_editor: Any) -> Any:
        return self._conditional(schema_editor).create_sql(model, schema_editor)

    def remove_sql(self, model: Any, schema_editor: Any) -> Any:
        return self._conditional(schema_editor).remove_sql(model, schema_editor)


class AddIndexConcurrently(AddIndex):
    """Add an index to a table in use: concurrently on PostgreSQL. The migration must set `atomic = False`."""

    atomic = False

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if schema_editor.connection.vendor == "postgresql":
            self._on_postgresql().database_forwards(app_label, schema_editor, from_state, to_state)
        else:
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if schema_editor.connection.vendor == "postgresql":
            self._on_postgresql().database_backwards(app_label, schema_editor, from_state, to_state)
        else:
            super().database_backwards(app_label, schema_editor, from_state, to_state)

    def _on_postgresql(self) -> AddIndex:
        from django.contrib.postgres import operations  # needs psycopg

        return operations.AddIndexConcurrently(self.model_name, self.index)
