"""Format values for display. Everything read from a row is escaped."""

from __future__ import annotations

import json
import re
import secrets
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from django.contrib import admin
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator
from django.utils.translation import gettext as _

from djqueue.core.durations import in_words
from djqueue.core.tags import KINDS, UnstorableResult
from djqueue.fields import Unreadable
from djqueue.states import Status

# A mark next to the word, so that a state is never shown by colour alone.
MARKS = {
    "scheduled": "◷",
    "pending": "○",
    "claimed": "▶",
    "done": "✔",
    "dead": "✖",
    "cancelled": "⊘",
    "alive": "●",
    "quiet": "◌",
    "draining": "◒",
    "lost": "!",
    "stopped": "■",
    "paused": "❚❚",
    "running": "▶",
    "no-worker": "!",
}
NOTHING = "-"
TIME_FORMAT = "Y-m-d H:i:s T"


def badge(kind: str, label: str = "") -> SafeString:
    """Return a state as a mark, a word and a colour."""
    known = kind if kind in MARKS else "unknown"
    mark = format_html('<span aria-hidden="true">{}</span> ', MARKS[kind]) if kind in MARKS else ""
    return format_html('<span class="djq-badge djq-{}">{}{}</span>', known, mark, label or kind)


def status(job: Any) -> SafeString:
    """Return the state of a job; a claimed one that has started is running."""
    if job.status == Status.CLAIMED and getattr(job, "started", False):
        return badge("running", _("running"))
    try:
        return badge(job.status, str(Status(job.status).label))
    except ValueError:  # a row edited by hand
        return badge(str(job.status))


def dotted(name: Any) -> SafeString:
    """Return a name that can be broken after its dots."""
    return format_html_join(mark_safe("<wbr>"), "{}", ((part,) for part in re.split(r"(?<=\.)", str(name))))


def yes_or_no(value: bool) -> str:
    """Return a word; Django's icon shows a harmless "no" as a red cross."""
    return _("yes") if value else _("no")


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


def duration(seconds: float | None) -> str:
    """Return a duration in at most two units."""
    return NOTHING if seconds is None else in_words(seconds)


def between(start: datetime | None, end: datetime | None) -> str:
    return duration(None if start is None or end is None else (end - start).total_seconds())


def exact(value: datetime) -> str:
    """Return a time in the one format that all pages use."""
    return date_format(timezone.localtime(value), TIME_FORMAT)


def relative(value: datetime, now: datetime | None = None) -> str:
    """Return how long ago a time was, or how far it is in the future."""
    seconds = ((now or timezone.now()) - value).total_seconds()
    text = _("%(time)s ago") if seconds >= 0 else _("in %(time)s")
    return text % {"time": duration(abs(seconds))}


def instant(value: datetime | None) -> str | SafeString:
    """Return the exact time, with how long ago it was as a tooltip: for the page of one row."""
    return NOTHING if value is None else _time(value, exact(value), relative(value))


def ago(value: datetime | None, now: datetime | None = None) -> str | SafeString:
    """Return how long ago it was, with the exact time as a tooltip: for lists."""
    return NOTHING if value is None else _time(value, relative(value, now), exact(value))


def _time(value: datetime, shown: str, title: str) -> SafeString:
    return format_html('<time datetime="{}" title="{}">{}</time>', value.isoformat(), title, shown)


def time_of(field: str, label: Any) -> Any:
    """Return a method of an admin class that shows a time on the page of a row."""

    @admin.display(description=label)
    def method(self: Any, obj: Any) -> str | SafeString:
        return instant(getattr(obj, field))

    return method
