"""Format values for display. Everything read from a row is escaped."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from djqueue.core.durations import in_words
from djqueue.operations.values import as_text as as_text
from djqueue.operations.values import pretty_json as pretty_json
from djqueue.operations.values import short_arguments as short_arguments
from djqueue.operations.values import short_json as short_json
from djqueue.states import Status

# A mark next to the word, so that a state is never shown by colour alone.
MARKS = {
    "scheduled": "◷",
    "blocked": "◇",
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
    "held": "❚❚",
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
