"""What the overview shows, read with a fixed number of statements. Nothing in it depends on the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from djqueue.models import Job, QueueState, Schedule
from djqueue.operations import attention, backlog, rates, summary
from djqueue.operations.backlog import Recent
from djqueue.operations.findings import Finding, Subject
from djqueue.operations.rates import Point, Rates
from djqueue.operations.summary import QueueSummary, WorkerState, WorkerSummary
from djqueue.sql import Statements, statements
from djqueue.sql.workers import HEARTBEAT_INTERVAL
from djqueue.states import Status

from .cache import Cache
from .failures import Failures, failures

MOST_QUEUES = MOST_WORKERS = 50
MOST_RUNNING = 1000  # claimed jobs that are read
MOST_NEXT = 8
DAY = 24 * 60
STEP = 15  # minutes of a bar in the chart of the last day
JOB_COLUMNS = ("pk", "task", "queue", "worker", "claimed_at", "run_at", "started", "schedule")


@dataclass(frozen=True, slots=True)
class QueueRow:
    summary: QueueSummary
    recent: Recent  # of the last 5 minutes
    rates: Rates  # of the last hour
    backlog_seconds: float | None
    paused_at: datetime | None
    flagged: bool  # a finding is about it


@dataclass(frozen=True, slots=True)
class Snapshot:
    at: datetime
    findings: list[Finding]
    schedule_keys: dict[str, Any]  # the primary keys of the schedules that findings are about
    queues: list[QueueRow]  # those that need attention first; at most MOST_QUEUES
    queue_count: int
    hour: list[Point]
    failures: Failures
    schedules: list[Schedule]
    jobs: list[Job]


@dataclass(frozen=True, slots=True)
class WorkerRow:
    summary: WorkerSummary
    jobs: list[Job]  # longest running first


@dataclass(frozen=True, slots=True)
class Workers:
    at: datetime
    rows: list[WorkerRow]  # lost ones first; at most MOST_WORKERS
    count: int
    threads: int
    busy: int
    suspect: bool  # a heartbeat is missing, so that a worker may soon be lost


def read_snapshot() -> Snapshot:
    database = statements()
    at = database.now()
    queues, workers = summary.queues(), summary.all_workers()
    findings = attention.findings(queues, workers)
    return Snapshot(
        at=at,
        findings=findings,
        schedule_keys=_schedule_keys(database, findings),
        queues=_queue_rows(database, queues, workers, findings),
        queue_count=len(queues),
        hour=rates.history(60),
        failures=failures(database, at),
        schedules=_next_schedules(database),
        jobs=list(_jobs(database, Status.SCHEDULED).order_by("run_at", "id")[:MOST_NEXT]),
    )


def read_workers() -> Workers:
    database = statements()
    at = database.now()
    rows = summary.all_workers()
    claimed = list(_jobs(database, Status.CLAIMED).order_by("pk")[:MOST_RUNNING])
    held: dict[str, list[Job]] = {}
    for job in sorted(claimed, key=lambda job: job.claimed_at or at):
        held.setdefault(job.worker, []).append(job)
    rows.sort(key=lambda row: (row.state is not WorkerState.LOST, row.name or row.identity))
    alive = [row for row in rows if row.alive]
    return Workers(
        at=at,
        rows=[WorkerRow(row, held.get(row.identity, [])) for row in rows[:MOST_WORKERS]],
        count=len(rows),
        threads=sum(row.threads for row in alive),
        busy=sum(row.running for row in alive),
        suspect=any(row.heartbeat_seconds > 1.5 * HEARTBEAT_INTERVAL for row in alive),
    )


def read_day() -> list[Point]:
    return rates.history(DAY, STEP)


# Each costs at most 1/times of a core, except where `most` makes it fresher. Ten people who keep the page open cost
# about as much by their requests alone.
SNAPSHOT = Cache(read_snapshot, times=500)
THE_DAY = Cache(read_day, times=3000, most=STEP * 60)  # a site with many tasks has many counts
WORKERS = Cache(read_workers, times=1000, most=5.0, is_urgent=lambda workers: workers.suspect)  # see page.REFRESH


def forget() -> None:
    """Read everything again for the next overview, which should show what an operator has just done."""
    for cache in (SNAPSHOT, WORKERS):
        cache.forget()


def _queue_rows(
    database: Statements,
    queues: Sequence[QueueSummary],
    workers: Sequence[WorkerSummary],
    findings: Sequence[Finding],
) -> list[QueueRow]:
    flagged = {finding.key for finding in findings if finding.subject is Subject.QUEUE}
    paused = QueueState.objects.using(database.alias).filter(paused=True)
    paused_at = dict(paused.values_list("queue", "paused_at"))
    recent, hour = backlog.recent(), rates.by_queue(60)
    rows = []
    for queue in sorted(queues, key=lambda row: (row.queue not in flagged, not row.paused, _idle(row), row.queue)):
        ended, ran = recent.get(queue.queue, Recent()), hour.get(queue.queue, Rates())
        left = backlog.seconds(queue, ended, ran.run, backlog.threads(queue.queue, workers))
        rows.append(QueueRow(queue, ended, ran, left, paused_at.get(queue.queue), queue.queue in flagged))
    return rows[:MOST_QUEUES]


def _idle(row: QueueSummary) -> bool:
    return not (row.waiting or row.claimed)


def _schedule_keys(database: Statements, findings: Sequence[Finding]) -> dict[str, Any]:
    names = [finding.key for finding in findings if finding.subject is Subject.SCHEDULE]
    rows = Schedule.objects.using(database.alias).filter(name__in=names)
    return dict(rows.values_list("name", "pk")) if names else {}


def _next_schedules(database: Statements) -> list[Schedule]:
    """Read along the index djqueue_schedule_next; SQLite would not use it for a plain enabled=True."""
    rows = Schedule.objects.using(database.alias).filter(enabled__in=[True], next_at__isnull=False)
    return list(rows.defer("args", "kwargs").order_by("next_at")[:MOST_NEXT])


def _jobs(database: Statements, status: Status) -> Any:
    return Job.objects.using(database.alias).filter(status=status.value).only(*JOB_COLUMNS)
