"""The functions of the project that AROUND and HEADERS name. Both lists are empty in most projects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from djqueue import conf
from djqueue.exceptions import InvalidOption

AROUND, HEADERS = "AROUND", "HEADERS"

Hook = Callable[[Any], Any]


@cache
def functions(setting: str) -> tuple[tuple[str, Hook], ...]:
    """Return the dotted paths and the functions of AROUND or HEADERS. Raise ImproperlyConfigured if one is missing."""
    paths = getattr(conf.config(), setting.lower())
    return tuple((path, _load(setting, path)) for path in paths)


def problems() -> list[str]:
    """Return the problems of both lists, one sentence each."""
    found = []
    for setting in (AROUND, HEADERS):
        for path in getattr(conf.config(), setting.lower()):
            try:
                _load(setting, path)
            except ImproperlyConfigured as error:
                found.append(str(error))
    return found


def headers(task: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the headers of a new job. Later functions in HEADERS override earlier ones, and the call overrides all."""
    merged: dict[str, Any] = {}
    for path, function in functions(HEADERS):
        try:
            found = function(task)
        except Exception as error:
            error.add_note(f"Raised by {path}, a function in DJQUEUE['HEADERS'], for a job of {task}.")
            raise
        if not isinstance(found, Mapping):
            raise InvalidOption(
                f"{path} in DJQUEUE['HEADERS'] must return a dictionary ({{}} for no headers), "
                f"got {type(found).__name__}"
            )
        merged.update(found)
    return merged | dict(given)


def _load(setting: str, path: str) -> Hook:
    try:
        found = import_string(path)
    except Exception as error:  # whatever the module raises when it is imported
        reason = f"{type(error).__name__}: {error}"
        raise ImproperlyConfigured(f"DJQUEUE[{setting!r}]: {path!r} cannot be imported ({reason}).") from error
    if not callable(found):
        raise ImproperlyConfigured(
            f"DJQUEUE[{setting!r}]: {path!r} must be a function, but is of the type {type(found).__name__}."
        )
    return found  # type: ignore[no-any-return]


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting == "DJQUEUE":
        functions.cache_clear()


setting_changed.connect(_forget, dispatch_uid="djqueue.core.hooks")
