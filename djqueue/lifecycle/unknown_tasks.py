"""Put back jobs whose task is not registered here: another release may have it. After a grace period they are dead."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from djqueue.conf import config
from djqueue.core.records import Settlement
from djqueue.sql import statements

from . import settle

if TYPE_CHECKING:
    from .claim import ClaimedJob

NO_TASK = "no task registered"
FIRST, LAST = 1.0, 60.0
# If there are many, moving them every second would cost the other jobs more than these gain by it.
FIRST_OF_MANY = 10.0
# How many pending jobs of the queue are searched for more of them.
AHEAD = 5000


def settlement(job: ClaimedJob) -> Settlement:
    """Return the settlement of a claimed job whose task is unknown."""
    since = job.row.unknown_since
    age = 0.0 if since is None else (job.claimed_at - since).total_seconds()
    if age >= config().unknown_task_grace:
        return settle.dead_letter(job, f"{NO_TASK}: {job.task}", unknown=True)
    return settle.snooze(job, min(max(age, FIRST), LAST), unknown=True)


def put_back(queue: str, tasks: Collection[str]) -> int:
    """Put back the next jobs of these tasks without claiming them one by one, and return how many.

    Only pending rows are changed. Jobs whose grace period is over are left to be claimed, and become dead.
    """
    put = 0
    grace = config().unknown_task_grace
    while grace:  # without a grace period, jobs become dead as soon as they are claimed
        found = statements().put_back(queue, sorted(tasks), AHEAD, FIRST_OF_MANY, LAST, grace)
        put += found
        if found < AHEAD // 2:
            break
    return put
