"""How long the backlog of a queue is: its pending jobs, divided by the rate at which its attempts ended lately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Sum

from djqueue.models import Throughput
from djqueue.sql import statements
from djqueue.sql.workers import claims_from

from .rates import RECENT, Histogram
from .summary import QueueSummary, WorkerState, WorkerSummary

MINUTES = 5


@dataclass(slots=True)
class Recent:
    """What ended in a queue in the last minutes, and the seconds of those minutes in which anything did."""

    done: int = 0
    failed: int = 0
    seconds: float = 0.0

    @property
    def ended(self) -> int:
        return self.done + self.failed


def recent(minutes: int = MINUTES) -> dict[str, Recent]:
    """Return what ended in every queue in the last minutes, along the index djqueue_throughput_roll."""
    database = statements()
    now = database.now()
    start = now.replace(second=0, microsecond=0) - timedelta(minutes=minutes - 1)
    counts = Throughput.objects.using(database.alias).filter(rolled__in=RECENT, minute__gte=start)
    found: dict[str, Recent] = {}
    for queue, minute, done, failed in counts.values_list("queue", "minute").annotate(Sum("done"), Sum("failed")):
        row = found.setdefault(queue, Recent())
        row.done += int(done)
        row.failed += int(failed)
        row.seconds += min(60.0, max(1.0, (now - minute).total_seconds()))
    return found


def threads(queue: str, workers: Sequence[WorkerSummary]) -> int:
    """Return the number of threads that run jobs of this queue, among others."""
    return sum(row.threads for row in workers if row.state is WorkerState.ALIVE and claims_from(row.queues, queue))


def seconds(queue: QueueSummary, ended: Recent | None, run: Histogram | None, threads: int) -> float | None:
    """Return how long it takes to run the pending jobs, or None if that is unknown.

    Minutes in which nothing ended do not count: then there was nothing to run. If nothing has ended lately, it is the
    mean run time of the last hour and the number of threads that decide.
    """
    if not queue.pending:
        return 0.0
    if queue.paused or not queue.consumed:
        return None
    if ended is not None and ended.ended:
        return queue.pending * ended.seconds / ended.ended
    if run is not None and run.mean is not None and threads:
        return queue.pending * run.mean / threads
    return None
