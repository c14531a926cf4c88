"""What needs attention now: a list that is cheap enough to be read with every overview.

Every statement is bounded: it reads the summaries, the first rows of an index, or the counts of some minutes. The
counts of a whole day are read only if a queue looks unusual.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from djqueue.conf import config
from djqueue.core.durations import in_words
from djqueue.models import QueueState, Schedule
from djqueue.sql import Statements, statements
from djqueue.sql.common import holders as placeholders
from djqueue.sql.workers import STALLED_AFTER, claims_from

from . import rates, summary, transactions
from .codes import Code
from .findings import Finding, Severity, Subject
from .summary import QueueSummary, WorkerState, WorkerSummary
from .wording import counted, listed

# Findings of one code, at most.
MOST = 10
# Scheduled jobs that are read, in the order of their times. Jobs of unknown tasks are tried again within a minute, so
# they are among the first.
FIRST_SCHEDULED = 1000
# The oldest job of a queue waits too long after this time, or so many times the queue's median wait of the last day.
# The median, because an incident of some hours must not become the usual.
WAITS_TOO_LONG, TIMES_MEDIAN_WAIT = 60.0, 20
# Deaths are rising if there are so many in 15 minutes, and so many times the mean of 15 minutes of the last day.
DEATHS, TIMES_MEAN_DEATHS = 5, 3
QUARTER, DAY = 15, 24 * 60  # minutes
LOST_WITHIN = 3600.0


def findings(
    queues: Sequence[QueueSummary] | None = None,
    workers: Sequence[WorkerSummary] | None = None,
) -> list[Finding]:
    """Return what needs attention, most severe first. Pass the summaries if they have been read already."""
    database = statements()
    queues = summary.queues() if queues is None else queues
    workers = summary.all_workers() if workers is None else workers
    scheduled = _first_scheduled(database)
    found = [
        *_no_worker(queues, workers, scheduled),
        *_unknown_tasks(scheduled),
        *_unusual(queues),
        *_disabled_schedules(database),
        *islice(stalled_loops(workers), MOST),
        *_lost_workers(database, workers),
        *transactions.findings(database),
        *_paused(database, queues),
    ]
    return by_severity(found)


def by_severity(found: list[Finding]) -> list[Finding]:
    return sorted(found, key=lambda finding: [*Severity].index(finding.severity))


class Scheduled(NamedTuple):
    """The first scheduled jobs, those of one queue and task."""

    queue: str
    task: str
    due: int
    unknown: int
    unknown_for: float  # seconds, of the job that has been unknown for longest


def _first_scheduled(database: Statements) -> list[Scheduled]:
    """Read the first scheduled jobs along djqueue_job_due."""
    now = database.now_sql()
    rows = database.fetch(
        f"""
        SELECT queue, task, SUM(CASE WHEN run_at <= {now} THEN 1 ELSE 0 END), COUNT(unknown_since),
               MIN(unknown_since), {now}
        FROM (SELECT queue, task, run_at, unknown_since FROM djqueue_job WHERE status = 'scheduled'
              ORDER BY run_at, id LIMIT {FIRST_SCHEDULED}) first
        GROUP BY queue, task ORDER BY queue, task
        """
    )
    return [
        Scheduled(queue, task, int(due), unknown, _seconds(database.instant(since), database.instant(at)))
        for queue, task, due, unknown, since, at in rows
    ]


def _seconds(since: object, now: object) -> float:
    return 0.0 if since is None else (now - since).total_seconds()  # type: ignore[operator]


def _no_worker(
    queues: Sequence[QueueSummary], workers: Sequence[WorkerSummary], scheduled: Sequence[Scheduled]
) -> Iterator[Finding]:
    due: Counter[str] = Counter()
    for row in scheduled:
        due[row.queue] += row.due
    unconsumed = [row for row in queues if not row.paused and not row.consumed]
    waiting = {row.queue: row.pending + row.blocked + due[row.queue] for row in unconsumed}
    waiting = {queue: jobs for queue, jobs in waiting.items() if jobs}
    if waiting and not any(row.state is WorkerState.ALIVE and row.queues is not False for row in workers):
        yield Finding(
            code=Code.NO_WORKER,
            severity=Severity.ERROR,
            text=f"No worker is running. Due: {counted(sum(waiting.values()), 'job')} of "
            f"{counted(len(waiting), 'queue')} ({listed(list(waiting))}).",
            remedy=_quiet_workers(workers, *waiting) or "Start a worker with manage.py runworker.",
            subject=Subject.QUEUE,
            key=next(iter(waiting)) if len(waiting) == 1 else "",
        )
        return
    for queue, jobs in list(waiting.items())[:MOST]:
        yield Finding(
            code=Code.NO_WORKER,
            severity=Severity.ERROR,
            text=f"No live worker consumes the queue {queue!r}, which has {counted(jobs, 'due job')}.",
            remedy=_quiet_workers(workers, queue)
            or f"Start a worker with manage.py runworker --queue {queue}, or one without --queue and --exclude.",
            subject=Subject.QUEUE,
            key=queue,
        )


def _quiet_workers(workers: Sequence[WorkerSummary], *queues: str) -> str:
    quiet = [
        row.name or row.identity
        for row in workers
        if row.state is WorkerState.QUIET and all(claims_from(row.queues, queue) for queue in queues)
    ]
    return f"Resume the quiet worker {listed(quiet)}, or start another one with manage.py runworker." if quiet else ""


def _unknown_tasks(scheduled: Sequence[Scheduled]) -> Iterator[Finding]:
    tasks: dict[str, list[Scheduled]] = {}
    for row in scheduled:
        if row.unknown:
            tasks.setdefault(row.task, []).append(row)
    for task, rows in list(tasks.items())[:MOST]:
        left = config().unknown_task_grace - max(row.unknown_for for row in rows)
        yield Finding(
            code=Code.UNKNOWN_TASKS,
            severity=Severity.ERROR,
            text=f"The task {task} of {counted(sum(row.unknown for row in rows), 'job')} (queue "
            f"{listed(sorted({row.queue for row in rows}))}) is not registered in the workers; the first becomes dead "
            + (f"in {in_words(left)}." if left > 0 else "at its next attempt."),
            remedy="Deploy the code that has the task and restart the workers, or register the task again under this "
            "name: @djqueue.task(name=…). Dead jobs can be requeued afterwards.",
            subject=Subject.TASK,
            key=task,
        )


def _unusual(queues: Sequence[QueueSummary]) -> Iterator[Finding]:
    """Compare deaths and waits with those of the last day, which are read only if there is a reason to."""
    dead = {queue: row.dead for queue, row in rates.by_queue(QUARTER).items() if row.dead >= DEATHS}
    late = {
        row.queue: row
        for row in queues
        if row.consumed and not row.paused and (row.oldest_pending_seconds or 0) > WAITS_TOO_LONG
    }
    usual = rates.by_queue(DAY) if dead or late else {}
    for queue, deaths in sorted(dead.items(), key=lambda item: -item[1])[:MOST]:
        mean = (usual[queue].dead - deaths) * QUARTER / (DAY - QUARTER) if queue in usual else 0.0
        if deaths > TIMES_MEAN_DEATHS * mean:
            yield _deaths(queue, deaths, mean)
    for queue, row in sorted(late.items(), key=lambda item: -(item[1].oldest_pending_seconds or 0))[:MOST]:
        median = (usual[queue].wait.quantile(0.5) if queue in usual else None) or 0.0
        if (row.oldest_pending_seconds or 0) > TIMES_MEDIAN_WAIT * median:
            yield _too_old(row, median)


def _deaths(queue: str, deaths: int, mean: float) -> Finding:
    return Finding(
        code=Code.DEATHS_RISING,
        severity=Severity.ERROR,
        text=f"{counted(deaths, 'job')} of the queue {queue!r} became dead in the last {QUARTER} minutes; "
        f"the mean of the last day is {mean:.1f}.",
        remedy="Look at the errors of its latest dead jobs. When the cause is gone, requeue them.",
        subject=Subject.QUEUE,
        key=queue,
    )


def _too_old(row: QueueSummary, median: float) -> Finding:
    usual = f"usually it is less than {in_words(median)} (median of a day)" if median else "no job of it ran today"
    return Finding(
        code=Code.OLDEST_TOO_OLD,
        severity=Severity.WARNING,
        text=f"The oldest of {counted(row.pending, 'pending job')} of the queue {row.queue!r} has been waiting for "
        f"{in_words(row.oldest_pending_seconds or 0)}; {usual}.",
        remedy=f"Start more workers for it (manage.py runworker --queue {row.queue}) or more threads, or give the job "
        "a better priority.",
        subject=Subject.QUEUE,
        key=row.queue,
    )


def _disabled_schedules(database: Statements) -> Iterator[Finding]:
    rows = Schedule.objects.using(database.alias).filter(enabled=False).exclude(problem="").order_by("name")
    for name, problem in rows.values_list("name", "problem")[:MOST]:
        yield Finding(
            code=Code.SCHEDULE_DISABLED,
            severity=Severity.ERROR,
            text=f"The schedule {name!r} was disabled because of a problem: {problem.rstrip('.')}.",
            remedy="Correct the schedule, or register its task again; then enable it.",
            subject=Subject.SCHEDULE,
            key=name,
        )


def stalled_loops(workers: Sequence[WorkerSummary], after: float = STALLED_AFTER) -> Iterator[Finding]:
    """Report live workers with a loop that has had no good turn for so many seconds."""
    for row in workers:
        stalled = {name: age for name, age in row.loops.items() if row.alive and age > after}
        if not stalled:
            continue
        ages = listed([f"{name} ({in_words(age)})" for name, age in stalled.items()])
        yield Finding(
            code=Code.LOOP_STALLED,
            severity=Severity.ERROR,
            text=f"Loops of the worker {row.name or row.identity} have had no good turn for long: {ages}.",
            remedy="Read its log: it names the error. If there is none, restart the worker.",
            subject=Subject.WORKER,
            key=row.identity,
        )


def _lost_workers(database: Statements, workers: Sequence[WorkerSummary]) -> Iterator[Finding]:
    lost = [row for row in workers if row.state is WorkerState.LOST and row.heartbeat_seconds < LOST_WITHIN][:MOST]
    held: dict[str, int] = {}
    if lost:
        names = [row.identity for row in lost]
        # Along djqueue_job_claimed: claimed jobs are few.
        sql = "SELECT worker, COUNT(*) FROM djqueue_job WHERE status = 'claimed'"
        held = dict(database.fetch(f"{sql} AND worker IN ({placeholders(names)}) GROUP BY worker", names))
    for row in lost:
        jobs = held.get(row.identity, 0)
        yield Finding(
            code=Code.WORKER_LOST,
            severity=Severity.WARNING,
            text=f"The worker {row.name or row.identity} (host {row.host}, process {row.pid}) has sent no heartbeat "
            f"for {in_words(row.heartbeat_seconds)}"
            + (f", and holds {counted(jobs, 'job')} until their leases expire." if jobs else ", and holds no jobs."),
            remedy="Find out why it disappeared (machine lost, killed for its memory use), and start another one if "
            "needed. A live worker takes its jobs back when their leases expire.",
            subject=Subject.WORKER,
            key=row.identity,
        )


def _paused(database: Statements, queues: Sequence[QueueSummary]) -> Iterator[Finding]:
    waiting = {row.queue: row.waiting for row in queues if row.paused and row.waiting}
    chosen = list(waiting)[:MOST]
    if not chosen:
        return
    now = database.now()
    rows = QueueState.objects.using(database.alias).filter(pk__in=chosen, paused=True)
    for queue, since in rows.order_by("queue").values_list("queue", "paused_at"):
        yield Finding(
            code=Code.PAUSED_QUEUE,
            severity=Severity.WARNING,
            text=f"The queue {queue!r} has been paused"
            + (f" for {in_words((now - since).total_seconds())}" if since else "")
            + f" with {counted(waiting[queue], 'waiting job')}.",
            remedy=f"Resume it in the admin, or with manage.py djqueue resume {queue}.",
            subject=Subject.QUEUE,
            key=queue,
        )
