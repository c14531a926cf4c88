"""The timeline and failed attempts of a job. Rows may be edited by hand, so values are not trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from djqueue.core.durations import in_words
from djqueue.core.masking import hide
from djqueue.states import Status


@dataclass(frozen=True, slots=True)
class Moment:
    label: str
    at: datetime
    note: str = ""
    rank: datetime | None = None  # its place in the timeline, if that is not its time


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
    took: Any = entry.get("duration")
    return Attempt(
        number=str(entry.get("attempt", "?")),
        message=hide(str(entry.get("message", "")), secrets),
        exception=str(entry.get("exception", "")),
        traceback=hide(str(entry.get("traceback", "")), secrets),
        at=_instant(entry.get("at")),
        worker=str(entry.get("worker", "")),
        took=in_words(took) if _is_number(took) else "",
        before_requeue=bool(entry.get("before_requeue")),
    )


def timeline(job: Any, acts: Sequence[Moment] = ()) -> list[Moment]:
    """Return the events of a job in the order of their times, including future ones, and what users did with it."""
    moments = [Moment(_("enqueued"), job.enqueued_at), Moment(_("due"), job.run_at)]
    moments += [*_failed(job), *acts, *_current(job)]
    return sorted(moments, key=lambda moment: moment.rank or moment.at)


def _failed(job: Any) -> list[Moment]:
    """Return the failed attempts, and the deaths before a requeue."""
    failed = list(reversed(attempts(job, [])))
    moments = []
    for attempt, following in zip_longest(failed, failed[1:]):
        if attempt is None or attempt.at is None:
            continue
        label = _("attempt %(number)s failed") % {"number": attempt.number}
        moments.append(Moment(label, attempt.at, attempt.took))
        if attempt.before_requeue and _is_requeued_before(attempt, following):
            moments.append(Moment(_("died"), attempt.at, _("before the requeue")))
    return moments


def _is_requeued_before(attempt: Attempt, following: Attempt | None) -> bool:
    """Return whether the job was requeued between two failed attempts: then they are counted from 1 again."""
    if following is None or not following.before_requeue:
        return True
    numbers = [int(one.number) for one in (attempt, following) if one.number.isdecimal() and len(one.number) < 10]
    return len(numbers) == 2 and numbers[1] <= numbers[0]


def _current(job: Any) -> list[Moment]:
    """Return the events of the latest attempt, and the end."""
    moments = []
    end = job.completed_at or (job.failed_at if job.status == Status.DEAD else None)
    if job.started_at:
        moments.append(Moment(_("first started"), job.started_at))
    if job.claimed_at:
        waited = _between(max(job.run_at, job.enqueued_at), job.claimed_at)
        moments.append(Moment(_("claimed"), job.claimed_at, _("after waiting %(time)s") % {"time": waited}))
    if job.lease_expires_at:
        expired = job.lease_expires_at <= timezone.now()
        moments.append(Moment(_("lease expires"), job.lease_expires_at, _("expired") if expired else ""))
    if end:
        ran = _("ran for %(time)s") % {"time": _between(job.claimed_at, end)} if job.claimed_at else ""
        label = _("died") if job.status == Status.DEAD else str(_label(job.status))
        moments.append(Moment(label, end, ran))
    return moments


def last_exception(errors: list[Any]) -> str:
    """Return the class of the exception of the last failed attempt."""
    return _attempt(errors[-1], []).exception if errors else ""


def progress(value: Any) -> Progress | None:
    if not isinstance(value, dict):
        return None
    done: Any = value.get("done")
    total: Any = value.get("total")
    if not _is_number(done) or not _is_number(total) or total <= 0:
        return None
    done = min(max(done, 0), total)
    return Progress(done, total, round(100 * (done / total)), str(value.get("message", "")))


def _between(start: datetime, end: datetime) -> str:
    return in_words((end - start).total_seconds())


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
