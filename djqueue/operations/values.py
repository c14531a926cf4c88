"""Arguments, results and other stored values as readable text."""

from __future__ import annotations

import json
import re
import secrets
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from django.utils.text import Truncator
from django.utils.translation import gettext as _

from djqueue.core.tags import KINDS, UnstorableResult
from djqueue.fields import Unreadable


def short_json(value: Any, length: int = 60) -> str:
    return Truncator(as_text(value)).chars(length)


def pretty_json(value: Any) -> str:
    return as_text(value, indent=2)


_PLACE = secrets.token_hex(8)  # marks where a value that is not JSON is shown


def as_text(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON, with values of other types in a readable form and without quotes."""
    if isinstance(value, Unreadable):
        return value
    shown: list[str] = []

    def place(item: Any) -> str:
        shown.append(readable(item))
        return f"{_PLACE}{len(shown) - 1}"

    text = json.dumps(value, ensure_ascii=False, indent=indent, default=place)
    return re.sub(f'"{_PLACE}([0-9]+)"', lambda found: shown[int(found[1])], text) if shown else text


def readable(value: Any) -> str:
    """Return an argument of a type that JSON lacks: Decimal('9.90'), an ISO 8601 time, shop.Order 42."""
    if isinstance(value, Decimal | bytes):
        return repr(value)
    if isinstance(value, datetime | date | time):
        return next(kind.dump(value) for kind in KINDS.values() if isinstance(value, kind.type))
    if isinstance(value, UnstorableResult):
        return f"{value.repr}\n({value.type}: {value.problem})"
    return str(value)


def short_arguments(args: Any, kwargs: Any, length: int = 80) -> str:
    """Return arguments as they would be written in a call."""
    if args is None or kwargs is None:
        return _("(too long to show)")
    parts = [short_json(value) for value in args] if isinstance(args, list) else [short_json(args)]
    if isinstance(kwargs, dict):
        parts += [f"{name}={short_json(value)}" for name, value in kwargs.items()]
    else:
        parts.append(f"**{short_json(kwargs)}")
    return Truncator(", ".join(parts)).chars(length)


def worker_queues(stored: Any) -> str:
    """Return the queues of a worker's row, in words."""
    chosen, exclude = (stored.get("queues"), stored.get("exclude")) if isinstance(stored, dict) else (stored, [])
    if chosen is False:
        return _("none (quarantine)")
    if not isinstance(chosen, list) or not isinstance(exclude, list):
        return short_json(stored)
    shown = ", ".join(map(str, chosen)) or _("all")
    if not exclude:
        return shown
    return _("%(queues)s except %(exclude)s") % {"queues": shown, "exclude": ", ".join(map(str, exclude))}
