"""The timeline and failed attempts on a job's page. Rows may be edited by hand, so values are not trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from djqueue.core.masking import hide
from djqueue.states import Status

from .display import between, duration, instant


@dataclass(frozen=True, slots=True)
class Moment:
    label: str
    at: datetime
    note: str = ""

    @property
    def when(self) -> str:
        return instant(self.at)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One failed delivery."""

    number: str
    message: str
    exception: str = ""
    traceback: str = ""
    at: datetime | None = None
    worker: str = ""
    took: str = ""
    before_requeue: bool = False

    @property
    def when(self) -> str:
        return instant(self.at) if self.at else ""


@dataclass(frozen=True, slots=True)
class Progress:
    done: float
    total: float
    percent: int
    message: str


def attempts(job: Any, secrets: list[str]) -> list[Attempt]:
    """Return the failed attempts, latest first."""
    return [_attempt(entry, secrets) for entry in reversed(job.errors)]


def _attempt(entry: Any, secrets: list[str]) -> Attempt:
    if not isinstance(entry, dict):
        return Attempt("?", hide(str(entry), secrets))
    took = entry.get("duration")
    return Attempt(
        number=str(entry.get("attempt", "?")),
        message=hide(str(entry.get("message", "")), secrets),
        exception=str(entry.get("exception", "")),
        traceback=hide(str(entry.get("traceback", "")), secrets),
        at=_instant(entry.get("at")),
        worker=str(entry.get("worker", "")),
        took=duration(took) if _is_number(took) else "",
        before_requeue=bool(entry.get("before_requeue")),
    )


def timeline(job: Any) -> list[Moment]:
    """Return the events of a job in the order of their times, including future ones."""
    end = job.completed_at or (job.failed_at if job.status == Status.DEAD else None)
    moments = [Moment(_("enqueued"), job.enqueued_at)]
    moments.append(Moment(_("due"), job.run_at))
    if job.started_at:
        moments.append(Moment(_("first started"), job.started_at))
    for attempt in attempts(job, []):
        if attempt.at:
            label = _("attempt %(number)s failed") % {"number": attempt.number}
            note = _("before the requeue") if attempt.before_requeue else attempt.took
            moments.append(Moment(label, attempt.at, note))
    if job.claimed_at:
        waited = between(max(job.run_at, job.enqueued_at), job.claimed_at)
        moments.append(Moment(_("claimed"), job.claimed_at, _("after waiting %(time)s") % {"time": waited}))
    if job.lease_expires_at:
        expired = job.lease_expires_at <= timezone.now()
        moments.append(Moment(_("lease expires"), job.lease_expires_at, _("expired") if expired else ""))
    if end:
        ran = _("ran for %(time)s") % {"time": between(job.claimed_at, end)} if job.claimed_at else ""
        moments.append(Moment(str(_label(job.status)), end, ran))
    return sorted(moments, key=lambda moment: moment.at)


def progress(value: Any) -> Progress | None:
    if not isinstance(value, dict):
        return None
    done: Any = value.get("done")
    total: Any = value.get("total")
    if not _is_number(done) or not _is_number(total) or total <= 0:
        return None
    done = min(max(done, 0), total)
    return Progress(done, total, round(100 * (done / total)), str(value.get("message", "")))


def _label(status: str) -> Any:
    return Status(status).label if status in Status.values else status


def _instant(value: Any) -> datetime | None:
    try:
        found = parse_datetime(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo else None


def _is_number(value: Any) -> bool:
    """Return whether this is a finite number; an integer of 400 digits does not fit a float."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
