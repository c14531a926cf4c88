"""The latest finished jobs of a task, with their run times as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from djqueue.conf import config
from djqueue.models import DeadJob, DoneJob
from djqueue.states import Status

from . import charts, display
from .base import QueueModelAdmin
from .job_page import viewable

MOST = 20
# Done jobs have no index by task: as many of the newest are read, and the task may be rare.
WINDOW = 2000
COLUMNS = ("pk", "task", "claimed_at", "attempts", "max_attempts")


@dataclass(frozen=True, slots=True)
class Finished:
    """A done, cancelled or dead job, as the section shows it."""

    id: Any
    status: str
    claimed_at: datetime | None
    ended_at: datetime
    attempts: str
    url: str

    @property
    def seconds(self) -> float | None:
        """How long its last attempt took."""
        return None if self.claimed_at is None else max((self.ended_at - self.claimed_at).total_seconds(), 0.0)

    @property
    def took(self) -> str:
        return display.duration(self.seconds)

    @property
    def badge(self) -> SafeString:
        return display.status(self)

    @property
    def when(self) -> str:
        return display.ago(self.ended_at)

    @property
    def short_id(self) -> str:
        return str(self.id)[-12:]


@dataclass(frozen=True, slots=True)
class Latest:
    """The section of a page."""

    jobs: Sequence[Finished]
    chart: SafeString
    summary: str


def of_task(page: QueueModelAdmin, request: HttpRequest, job: Any) -> Latest | None:
    """Return the latest finished jobs of the task of a job that the user may view; None if there are none."""
    found = [*_done(page, request, job.task), *_dead(page, request, job.task)]
    found = sorted(found, key=lambda row: row.ended_at, reverse=True)[:MOST]
    return Latest(found, _chart(found), _summary(found)) if found else None


def _done(page: QueueModelAdmin, request: HttpRequest, task: str) -> list[Finished]:
    if not viewable(page, request, DoneJob, "changelist"):
        return []
    newest = DoneJob.objects.using(config().database).order_by("-pk").values(*COLUMNS, "status", "completed_at")
    rows = [row for row in newest[:WINDOW] if row["task"] == task][:MOST]
    return [_finished(page, DoneJob, row, row["status"], row["completed_at"]) for row in rows]


def _dead(page: QueueModelAdmin, request: HttpRequest, task: str) -> list[Finished]:
    """Read along djqueue_dead_task."""
    if not viewable(page, request, DeadJob, "changelist"):
        return []
    rows = DeadJob.objects.using(config().database).filter(task=task, failed_at__isnull=False).order_by("-failed_at")
    latest = rows.values(*COLUMNS, "failed_at")[:MOST]
    return [_finished(page, DeadJob, row, Status.DEAD.value, row["failed_at"]) for row in latest]


def _finished(page: QueueModelAdmin, model: Any, row: Any, status: str, ended_at: Any) -> Finished:
    attempts = f"{row['attempts']}/{row['max_attempts']}"
    return Finished(
        row["pk"], status, row["claimed_at"], ended_at, attempts, page.url("change", row["pk"], model=model)
    )


def _measured(jobs: Sequence[Finished]) -> list[float]:
    return sorted(job.seconds for job in jobs if job.seconds is not None)


def _summary(jobs: Sequence[Finished]) -> str:
    measured = _measured(jobs)
    if not measured:
        return ""
    text = ngettext(
        "Run time of the latest job: %(middle)s.",
        "Run times of the latest %(count)s jobs, oldest first: from %(least)s to %(most)s; median %(middle)s.",
        len(measured),
    )
    words = [display.duration(value) for value in (measured[0], measured[-1], measured[len(measured) // 2])]
    return text % {"count": len(measured), **dict(zip(("least", "most", "middle"), words, strict=True))}


def _chart(jobs: Sequence[Finished]) -> SafeString:
    """Return one bar per job, oldest first, with a link to the job."""
    shown = [job for job in reversed(jobs) if job.seconds is not None]
    bars = [
        charts.Bar(
            title=_("%(state)s, %(time)s, finished %(at)s")
            % {"state": _state(job.status), "time": job.took, "at": display.exact(job.ended_at)},
            parts=[("djq-bar-failed" if job.status == Status.DEAD else "djq-bar-done", job.seconds or 0.0)],
            url=job.url,
        )
        for job in shown
    ]
    return charts.bars(_summary(jobs), bars) if bars else SafeString("")


def _state(status: str) -> str:
    return str(Status(status).label) if status in Status.values else status  # a row edited by hand
