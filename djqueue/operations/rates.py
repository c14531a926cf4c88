"""How fast the queue is: sums and percentiles of settled attempts, from the counts that workers write per minute."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from django.db.models import QuerySet, Sum

from djqueue.models import Throughput
from djqueue.sql import statements
from djqueue.sql.throughput import BUCKETS

# The levels that hold the counts of the last two days: as they were written, and merged per minute.
RECENT = (0, 1)


class Histogram:
    """How many attempts took how long, in the cells of BUCKETS."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0

    def add(self, bucket: int, count: int, seconds: float) -> None:
        self.counts[bucket] += count
        self.seconds += seconds

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        return self.seconds / self.total if self.total else None

    def cumulative(self) -> list[tuple[str, float]]:
        """Return how many attempts took at most as long as each upper bound, in the form of Prometheus."""
        bounds = [*(str(float(bound)) for bound in BUCKETS), "+Inf"]
        return [*zip(bounds, map(float, accumulate(self.counts)), strict=True)]

    def quantile(self, share: float) -> float | None:
        """Return the seconds within which this share of the attempts ended, interpolated in its cell."""
        rank, below = share * self.total, 0
        for bucket, count in enumerate(self.counts):
            if count and below + count >= rank:
                low = BUCKETS[bucket - 1] if bucket else 0.0
                high = BUCKETS[bucket] if bucket < len(BUCKETS) else max(low * 2, self.mean or 0.0)
                return low + (high - low) * (rank - below) / count
            below += count
        return None


@dataclass(slots=True)
class Rates:
    """The attempts of one queue or task that ended within a time."""

    done: int = 0
    failed: int = 0  # attempts, also of jobs that are retried
    dead: int = 0
    wait: Histogram = field(default_factory=Histogram)
    run: Histogram = field(default_factory=Histogram)

    @property
    def ended(self) -> int:
        return self.done + self.failed


def by_queue(minutes: int) -> dict[str, Rates]:
    """Return the rates of every queue that ended attempts in the last minutes."""
    return _rates("queue", _since(minutes))


def by_task(minutes: int, tasks: Sequence[str] | None = None, queue: str | None = None) -> dict[str, Rates]:
    """Return the rates of every task, of these tasks, or of the tasks of one queue."""
    rows = _since(minutes)
    if tasks is not None:
        rows = rows.filter(task__in=tasks)
    if queue is not None:
        rows = rows.filter(queue=queue)
    return _rates("task", rows)


@dataclass(frozen=True, slots=True)
class Point:
    """What ended in one step of time."""

    at: datetime
    done: int
    failed: int


def history(minutes: int, step: int = 1, queue: str | None = None) -> list[Point]:
    """Return what ended in each step of so many minutes, oldest first; steps in which nothing ended are included."""
    rows = _since(minutes)
    if queue is not None:
        rows = rows.filter(queue=queue)
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    end = statements().now().replace(second=0, microsecond=0)
    for at, done, failed in rows.values_list("minute").annotate(Sum("done"), Sum("failed")):
        ago = int((end - at).total_seconds() // 60) // step
        counts[ago][0] += int(done)
        counts[ago][1] += int(failed)
    steps = range(minutes // step - 1, -1, -1)
    return [Point(end - timedelta(minutes=ago * step), *counts[ago]) for ago in steps]


def _since(minutes: int) -> QuerySet[Any]:
    """Return the counts of the last minutes, along the index djqueue_throughput_roll."""
    database = statements()
    start = database.now().replace(second=0, microsecond=0) - timedelta(minutes=minutes - 1)
    return Throughput.objects.using(database.alias).filter(rolled__in=RECENT, minute__gte=start)


def _rates(key: str, rows: QuerySet[Any]) -> dict[str, Rates]:
    found: dict[str, Rates] = defaultdict(Rates)
    cells: Iterable[Any] = rows.values_list(key, "wait_bucket", "run_bucket").annotate(
        *map(Sum, ("done", "failed", "dead", "wait_sum", "run_sum"))
    )
    for name, wait_bucket, run_bucket, done, failed, dead, wait_sum, run_sum in cells:
        rates = found[name]
        rates.done += int(done)
        rates.failed += int(failed)
        rates.dead += int(dead)
        rates.wait.add(wait_bucket, int(done + failed), wait_sum)
        rates.run.add(run_bucket, int(done + failed), run_sum)
    return dict(found)
