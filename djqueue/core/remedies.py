"""What to pass to a job instead of a value that cannot be stored."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

from django.core.files.base import File
from django.db.models import Model, QuerySet
from django.db.models.manager import BaseManager
from django.http import HttpRequest
from django.utils.functional import Promise

from .tags import KINDS, is_saved

KEYS = "Pass a list of primary keys: list(queryset.values_list('pk', flat=True))."
OTHERWISE = (
    "Pass JSON values, datetime, date, time, timedelta, UUID, Decimal or bytes objects, or saved model instances."
)


def remedy(value: Any) -> str:
    """Return a sentence that says what to pass instead of the value."""
    for kinds, text in _REMEDIES:
        if isinstance(value, kinds):
            return text if isinstance(text, str) else text(value)
    if dataclasses.is_dataclass(value):
        return "Pass dataclasses.asdict(value)."
    return "Pass a list." if isinstance(value, Iterable) else OTHERWISE


def _of_class(value: type) -> str:
    return "Pass its label, such as 'shop.Order'." if issubclass(value, Model) else "Pass its name."


def _of_instance(value: Model) -> str:
    return "Pass its primary key." if is_saved(value) else "It is not saved: save it first, or pass its values."


# The first entry that matches. A file and a queryset are iterable, so they come before the iterables.
_REMEDIES: list[tuple[Any, str | Callable[[Any], str]]] = [
    (type, _of_class),
    (Model, _of_instance),
    ((QuerySet, BaseManager), KEYS),
    (HttpRequest, "Pass the values that the task needs, such as request.user.pk."),
    ((File, io.IOBase), "Store the file, and pass its name."),
    ((bytearray, memoryview), "Pass bytes(value)."),
    (Enum, "Pass its value."),
    (Mapping, "Pass dict(value)."),
    ((Promise, PurePath, BaseException, *(kind.type for kind in KINDS.values())), "Pass str(value)."),
]
