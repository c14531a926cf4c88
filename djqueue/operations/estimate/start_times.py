"""What an estimate is based on: the jobs ahead, their usual run times, and how fast the queue has been worked off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from djqueue.conf import config
from djqueue.models import DoneJob, Job
from djqueue.operations import rates
from djqueue.operations.situation import MOST_COUNTED, Situation
from djqueue.sql import ahead, workers
from djqueue.states import Status

from . import Estimate
from .queueing import Capacity, Load, RunTime, average, run_time

# Jobs ahead are counted up to here; the tasks of the first MOST_COUNTED of them are read.
MOST_AHEAD = 100_000
# The latest done jobs from which the speed of the queue is measured, and how far back.
MOST_DONE = 1000
WINDOW = timedelta(minutes=5)
MOST_HELD = 5000
# Seconds. A job that waited for less does not show that others waited too.
LEAST_WAIT = 1.0
HOUR, DAY = 60, 1440  # minutes
# A blocked job starts when its limit key admits it, which depends on other jobs and on other queues.
ESTIMATED = (Status.PENDING, Status.SCHEDULED)


def of(situation: Situation) -> Estimate:
    """Return when a job starts."""
    job = situation.job
    if job.status == Status.BLOCKED:
        return Estimate()
    if job.status not in ESTIMATED:
        return Estimate(ahead=0)
    tasks, count = jobs_ahead(situation)
    if count is None or situation.is_paused or not situation.consumers or job.unknown_since is not None:
        return Estimate(count)
    if job.status == Status.SCHEDULED and job.limit_key is not None:  # it will be blocked when it is due
        return Estimate(count)
    found = _start(situation, tasks, count)
    if found is None:
        return Estimate(count)
    # What is ahead is worked off while the job waits for its time; then the scheduler makes it pending.
    due_in = max((job.run_at - situation.now).total_seconds(), 0.0) if job.status == Status.SCHEDULED else 0.0
    late = config().scheduler_interval if due_in else 0.0
    return Estimate(count, max(found[0], due_in), max(found[1], due_in + late))


def jobs_ahead(situation: Situation) -> tuple[Counter[str], int | None]:
    """Return the tasks of the jobs ahead, of the first ones if there are many, and how many there are."""
    place = (situation.database, situation.queue, situation.mark)
    tasks = ahead.by_task(*place, MOST_COUNTED)
    if tasks.total() < MOST_COUNTED:
        return tasks, tasks.total()
    count = ahead.count(*place, MOST_AHEAD + 1)
    return tasks, None if count > MOST_AHEAD else count


def _start(situation: Situation, tasks: Counter[str], count: int) -> tuple[float, float] | None:
    held = _held(situation)
    if not count and len(held) < situation.threads and not situation.is_at_limit:  # a thread is free
        return Load(Capacity(situation.threads)).start()
    done = _done(situation)
    runs = run_times({*tasks, *(task for _, task, _ in held), *(row[0] for row in done)})
    usual = average([(max(tasks[task], 1), run) for task, run in runs.items()])
    if usual is None:
        return None
    capacity, since = measured(done, situation.now, _waiting_since(situation.job), runs, usual)
    if not config().for_queue(situation.queue, "keep_done"):
        capacity, since = _counted(situation, usual)
    # Without a measurement, jobs of other queues take threads too; those that began before it had no part in it.
    alone = bool(capacity.measured) or situation.concurrency is not None
    taking = [
        (task, claimed_at)
        for queue, task, claimed_at in held
        if (queue == situation.queue or not alone) and (claimed_at >= since or not capacity.measured)
    ]
    capacity, idle = capacity.within(_threads(situation), elapsed=(situation.now - since).total_seconds())
    runs, usual = {task: run.without(idle) for task, run in runs.items()}, usual.without(idle)
    load = Load(
        capacity=capacity.blended(_assumed(situation)),
        ahead=[(number * count / tasks.total(), runs.get(task, usual)) for task, number in tasks.items()],
        held=[
            runs.get(task, usual).remaining((situation.now - claimed_at).total_seconds()) for task, claimed_at in taking
        ],
    )
    return load.start()


def run_times(tasks: Iterable[str]) -> dict[str, RunTime]:
    """Return the run times of tasks in the last hour, or else in the last day."""
    found: dict[str, RunTime] = {}
    for minutes in (HOUR, DAY):
        missing = sorted(set(tasks) - set(found))
        if missing:
            measured = {task: run_time(rate.run) for task, rate in rates.by_task(minutes, missing).items()}
            found |= {task: run for task, run in measured.items() if run is not None}
    return found


def measured(
    done: Sequence[tuple[str, datetime, datetime, datetime]],
    now: datetime,
    since: datetime,
    runs: Mapping[str, RunTime],
    usual: RunTime,
) -> tuple[Capacity, datetime]:
    """Return the capacity while jobs waited, from the latest done jobs (task, due, claimed, completed), and since when.

    A job that waited shows that the queue was not empty in that time: from there, the chain goes back.
    """
    slack = timedelta(seconds=LEAST_WAIT + usual.mean)
    for _, due_at, claimed_at, completed_at in done:
        if completed_at >= since - slack and (claimed_at - due_at).total_seconds() >= LEAST_WAIT:
            since = min(since, due_at)
    if done:
        since = max(since, done[-1][3])
    within = [task for task, _, _, completed_at in done if completed_at > since]
    elapsed = (now - since).total_seconds()
    if not within or elapsed <= 0:
        return Capacity(0.0), since
    return Capacity(sum(runs.get(task, usual).mean for task in within) / elapsed, len(within)), since


def _waiting_since(job: Any) -> datetime:
    due_at: datetime = max(job.run_at, job.enqueued_at)
    return due_at


def _held(situation: Situation) -> list[tuple[str, str, datetime]]:
    """Return queue, task and time of the claim of what the workers that consume the queue hold."""
    rows = Job.objects.using(situation.database.alias).filter(
        status=Status.CLAIMED.value, worker__in=[row.identity for row in situation.consumers], claimed_at__isnull=False
    )
    columns: Any = rows.order_by().values_list("queue", "task", "claimed_at")
    return list(columns[:MOST_HELD])


def _done(situation: Situation) -> list[tuple[str, datetime, datetime, datetime]]:
    """Return the latest done jobs of the queue, latest first, along djqueue_done_sweep."""
    rows = DoneJob.objects.using(situation.database.alias).filter(
        queue=situation.queue, completed_at__gte=situation.now - WINDOW
    )
    columns = rows.order_by("-completed_at").values_list("task", "run_at", "enqueued_at", "claimed_at", "completed_at")
    return [
        (task, max(run_at, enqueued_at), claimed_at, completed_at)
        for task, run_at, enqueued_at, claimed_at, completed_at in columns[:MOST_DONE]
        if claimed_at is not None  # else it was cancelled
    ]


def _counted(situation: Situation, usual: RunTime) -> tuple[Capacity, datetime]:
    """Return the capacity by the counts of whole minutes, for queues that keep no done jobs."""
    minute = situation.now.replace(second=0, microsecond=0)
    waited = minute - _waiting_since(situation.job)
    minutes = 1 + int(min(waited, WINDOW).total_seconds() // 60)
    since = minute - timedelta(minutes=minutes - 1)
    elapsed = (situation.now - since).total_seconds()
    if minutes < 1 or elapsed <= 0:
        return Capacity(0.0), situation.now
    ended = rates.by_task(minutes, queue=situation.queue).values()
    seconds = sum(rate.run.seconds for rate in ended)
    return Capacity(seconds / elapsed, sum(rate.ended for rate in ended)), since


def _threads(situation: Situation) -> int:
    """Return how many jobs of the queue can run at once."""
    limit = situation.concurrency
    return sum(row.threads if limit is None else min(row.threads, limit) for row in situation.consumers)


def _assumed(situation: Situation) -> float:
    """Return the capacity without a measurement: the threads of each worker, shared by the queues that have jobs."""
    queues = set(situation.database.claimable_queues()) | {situation.queue}
    limit = situation.concurrency
    total = 0.0
    for row in situation.consumers:
        share = row.threads / sum(workers.claims_from(row.queues, queue) for queue in queues)
        total += share if limit is None else min(share, limit)
    return total
