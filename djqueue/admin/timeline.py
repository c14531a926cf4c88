"""The timeline and failed attempts on a job's page: with what users did, and with times as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext as _

from djqueue.operations import timeline as plain
from djqueue.operations.timeline import Attempt, Moment
from djqueue.operations.timeline import last_exception as last_exception
from djqueue.operations.timeline import progress as progress

from .display import instant

LOG_DELAY = timedelta(seconds=1)


class Shown:
    """A moment or an attempt, with its time as HTML."""

    def __init__(self, item: Moment | Attempt) -> None:
        self.item = item

    def __getattr__(self, name: str) -> Any:
        return getattr(self.item, name)

    @property
    def when(self) -> str:
        return instant(self.item.at) if self.item.at else ""


def attempts(job: Any, secrets: list[str]) -> list[Shown]:
    """Return the failed attempts, latest first."""
    return [Shown(attempt) for attempt in plain.attempts(job, secrets)]


def timeline(job: Any, log: Sequence[Any] = ()) -> list[Shown]:
    """Return the events of a job in the order of their times, including future ones, and the log's entries about it."""
    return [Shown(moment) for moment in plain.timeline(job, _acts(log))]


def _acts(log: Sequence[Any]) -> list[Moment]:
    """Return what users did. An entry is written after the change that it reports, and so is placed before it."""
    moments = []
    for entry in log:
        text = entry.get_change_message().rstrip(".")
        by = _("by %(user)s") % {"user": entry.user.get_username()}
        moments.append(Moment(text[:1].lower() + text[1:], entry.action_time, by, rank=entry.action_time - LOG_DELAY))
    return moments
