"""Put jobs back that no task here is named for: another release may know them; after a grace they die."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from djqueue.conf import config
from djqueue.records import Settlement
from djqueue.sql import statements

from . import settle

if TYPE_CHECKING:
    from .claim import ClaimedJob

NO_TASK = "no task registered"
FIRST, LAST = 1.0, 60.0
# Where there are many, moving them to and fro every second would cost the others more than they gain by it.
FIRST_OF_MANY = 10.0
# How far the queue is looked through for more of their kind.
AHEAD = 5000


def settlement(job: ClaimedJob) -> Settlement:
    """What becomes of one that was claimed."""
    since = job.row.unknown_since
    age = 0.0 if since is None else (job.claimed_at - since).total_seconds()
    if age >= config().unknown_task_grace:
        return settle.dead_letter(job, f"{NO_TASK}: {job.task}", unknown=True)
    return settle.snooze(job, min(max(age, FIRST), LAST), unknown=True)


def put_back(queue: str, tasks: Collection[str]) -> int:
    """Put back those that stand next in the queue without claiming them one by one; gives how many.

    Only pending rows are changed, which are nobody's; those whose grace is over are left to be claimed, and die.
    """
    put = 0
    while True:
        found = statements().put_back(queue, sorted(tasks), AHEAD, FIRST_OF_MANY, LAST, config().unknown_task_grace)
        put += found
        if found < AHEAD // 2:
            return put
