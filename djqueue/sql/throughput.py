"""The counts that a settlement adds to djqueue_throughput."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from djqueue.core.records import Settlement
from djqueue.models import Throughput
from djqueue.states import Outcome

# Upper bounds in seconds of the histogram cells; one more cell is open-ended.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)

# The outcomes that each column counts. An attempt with none of them was given back, and is not counted at all.
COUNTED: dict[str, tuple[Outcome, ...]] = {
    "done": (Outcome.DONE,),
    "failed": (Outcome.RETRYING, Outcome.DEAD),
    "dead": (Outcome.DEAD,),
    "cancelled": (Outcome.CANCELLED,),
}


def count_done(items: Iterable[Settlement]) -> list[list[Any]]:
    """Return the counts of acknowledged jobs: columns of queue, task, buckets, number of jobs and sums of times."""
    cells: dict[tuple[str, str, int, int], list[float]] = {}
    for item in items:
        key = (item.queue, item.task, bisect_right(BUCKETS, item.wait), bisect_right(BUCKETS, item.run))
        cell = cells.setdefault(key, [0, 0.0, 0.0])
        cell[0] += 1
        cell[1] += item.wait
        cell[2] += item.run
    return [list(column) for column in zip(*((*key, *cell) for key, cell in cells.items()), strict=True)]


class Counts:
    """The rows of one settlement, for databases that do not add them up in SQL."""

    def __init__(self, now: datetime) -> None:
        self.minute = now.replace(second=0, microsecond=0)
        self.cells: dict[tuple[Any, ...], Throughput] = {}

    def cell(self, queue: str, task: str, wait_bucket: int = 0, run_bucket: int = 0) -> Throughput:
        key = (queue, task, wait_bucket, run_bucket)
        if key not in self.cells:
            self.cells[key] = Throughput(
                minute=self.minute, queue=queue, task=task, wait_bucket=wait_bucket, run_bucket=run_bucket
            )
        return self.cells[key]

    def add(self, queue: str, task: str, outcome: Outcome, wait: float, run: float) -> None:
        columns = [column for column, outcomes in COUNTED.items() if outcome in outcomes]
        if not columns:
            return
        cell = self.cell(queue, task, bisect_right(BUCKETS, wait), bisect_right(BUCKETS, run))
        for column in columns:
            setattr(cell, column, getattr(cell, column) + 1)
        cell.wait_sum += wait
        cell.run_sum += run
