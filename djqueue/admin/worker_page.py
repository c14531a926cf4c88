"""What the page of a worker process shows. Rows may be edited by hand, so values are not trusted.

Every query is bounded: claimed jobs are few and have an index of their own, finished jobs are searched for among the
newest, and the table of workers has the rows of a day.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from djqueue.models import DeadJob, DoneJob, Job, Worker
from djqueue.operations.summary import worker_state, worker_summary
from djqueue.sql import statements, workers
from djqueue.states import Status, WorkerRequest

from . import charts, display
from .worker_actions import LIVE, OBEYED

MOST_HELD = 100  # claimed jobs that are listed
MOST_PROCESSES = 50
FINISHED = 10  # finished jobs that are listed
SEARCHED = 5_000  # the newest rows of a table, among which they are searched


@dataclass(frozen=True, slots=True)
class Loop:
    name: str
    work: str
    age: str
    stalled: bool


@dataclass(frozen=True, slots=True)
class Memory:
    chart: SafeString
    text: str


def held_jobs(identity: str) -> list[Any]:
    """Return the jobs that a process holds, the oldest claim first, along the index djqueue_job_claimed."""
    claimed = Job.objects.using(statements().alias).filter(status=Status.CLAIMED.value, worker=identity)
    light = claimed.only(
        "task", "queue", "status", "attempts", "max_attempts", "started", "claimed_at", "cancel_requested"
    )
    return list(light.order_by("claimed_at", "id")[: MOST_HELD + 1])


def finished_jobs(identity: str) -> list[Any]:
    """Return the jobs that ended last in this process, latest first, of the newest rows of both tables."""
    found = [job for model in (DoneJob, DeadJob) for job in _finished(model, identity)]
    return sorted(found, key=ended_at, reverse=True)[:FINISHED]


def ended_at(job: Any) -> datetime:
    ended: datetime = job.completed_at or job.failed_at or job.enqueued_at
    return ended


def _finished(model: Any, identity: str) -> Iterator[Any]:
    newest = model.objects.using(statements().alias).order_by("-id")
    last = newest.values_list("pk", flat=True)[SEARCHED - 1 : SEARCHED].first()
    rows = newest.filter(worker_ids__endswith=f"{identity},")
    rows = rows if last is None else rows.filter(pk__gte=last)
    ended = ("status", "completed_at") if model is DoneJob else ("failed_at",)
    light = rows.only("task", "queue", "attempts", "max_attempts", "worker_ids", "claimed_at", "enqueued_at", *ended)
    return (job for job in light[: 2 * FINISHED] if job.worker_ids[-1:] == [identity])


def other_processes(row: Any) -> list[Any]:
    """Return the other processes of the same worker, the latest heartbeat first."""
    if not row.supervisor:
        return []
    database = statements()
    others = Worker.objects.using(database.alias).filter(supervisor=row.supervisor).exclude(pk=row.pk)
    shown = others.annotate(now=workers.clock(database)).defer("samples", "loops", "queues")
    return list(shown.order_by("stopped_at", "-heartbeat_at")[:MOST_PROCESSES])


def pending_request(row: Any, others: Sequence[Any]) -> str:
    """Return the latest request to this worker if its processes have not obeyed it yet."""
    asked = [one for one in (row, *others) if one.requested_at is not None]
    latest = max(asked, key=lambda one: one.requested_at, default=None)
    if latest is None or latest.request not in [what.value for what in WorkerRequest]:
        return ""
    live = [one for one in (row, *others) if worker_state(one) in LIVE]
    obeyed = OBEYED[WorkerRequest(latest.request)]
    if row not in live or all(worker_state(one) in obeyed for one in live):
        return ""
    texts = {
        WorkerRequest.QUIET: _("Quiet requested %(time)s. The worker obeys within seconds."),
        WorkerRequest.RESUME: _("Resume requested %(time)s. The worker obeys within seconds."),
        WorkerRequest.DRAIN: _("Drain requested %(time)s. The worker obeys within seconds."),
    }
    return texts[WorkerRequest(latest.request)] % {"time": display.relative(latest.requested_at, row.now)}


def loops(row: Any) -> list[Loop]:
    """Return the loops of a live process and its supervisor, and which of them have had no good turn for long."""
    if worker_state(row) not in LIVE:
        return []
    known = {
        "claimer": _("claims jobs"),
        "completer": _("writes the outcomes of jobs"),
        "leases": _("renews the leases of running jobs, in the supervisor"),
        "reaper": _("takes back jobs whose leases have expired, in the supervisor"),
        "scheduler": _("makes due jobs pending and fires schedules, in the supervisor"),
        "sweeps": _("deletes old rows, in the supervisor"),
    }
    return [
        Loop(name, known.get(name, ""), display.duration(age), age > workers.STALLED_AFTER)
        for name, age in sorted(worker_summary(row).loops.items())
    ]


def memory(row: Any) -> Memory | None:
    """Return the memory over the life of the process; None if nothing is known."""
    points = list(_points(row.samples))
    if row.memory:
        seconds = ((row.stopped_at or row.heartbeat_at) - row.started_at).total_seconds()
        points.append((max(seconds, points[-1][0] if points else 0.0), float(row.memory)))
    if not points:
        return None
    sizes = [size for _, size in points]
    text = _("now %(now)s, lowest %(low)s, highest %(high)s, over %(time)s") % {
        "now": filesizeformat(sizes[-1]),
        "low": filesizeformat(min(sizes)),
        "high": filesizeformat(max(sizes)),
        "time": display.duration(points[-1][0] - points[0][0]),
    }
    return Memory(charts.line(_("Memory: %(numbers)s") % {"numbers": text}, points), text)


def _points(samples: Any) -> Iterable[tuple[float, float]]:
    for sample in samples if isinstance(samples, list) else []:
        match sample:
            case [int() | float() as seconds, int() | float() as size]:
                yield float(seconds), float(size)
