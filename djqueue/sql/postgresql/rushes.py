"""Rushes: while a process enqueues many jobs, it does not notify for each of them.

PostgreSQL lets one transaction after the other commit a notification, and each of them waits for the disk meanwhile.
In a rush, the process asks the workers, after a commit, to look for jobs often for a limited time, and sends nothing
until that time has nearly passed. It is the longer, the longer the rush lasts.

A job without a notification of its own must be found nevertheless. So the process measures the time from before it
sends the request, and checks after the commit of the job that it has not passed. A worker measures it from after it
received the request, and looks once more at its end, when the job has been committed. A worker that begins to listen
may have missed a request, and looks by itself for the longest time that one can ask for.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache

from djqueue.core.channels import LONGEST_RUSH, rush_request

Notice = tuple[str, str]  # a channel and a payload

# A process is in a rush if the last MANY enqueues with the same notification were within FAST seconds, or within SLOW
# seconds while its inserts are slow.
MANY = 8
FAST, SLOW = 0.008, 1.0
SHORTEST_RUSH, LONGER = 0.05, 4


class Rush:
    """The enqueues of this process, outside of transactions, that send the same notification.

    Threads may share it without a lock. The worst that they can do is to send two requests.
    """

    def __init__(self) -> None:
        self.enqueued = deque([-math.inf] * MANY, maxlen=MANY)  # when
        self.lasts = SHORTEST_RUSH
        self.until = -math.inf  # until when workers look by themselves
        self.renew_at = -math.inf

    def is_on(self, *, slow: bool) -> bool:
        """Return whether the next enqueue should leave its notification to `notify`; called before it."""
        now = time.monotonic()
        took = now - self.enqueued[0]
        self.enqueued.append(now)
        return slow or took < FAST or now < self.until

    def notify(self, notice: Notice, send: Callable[[Notice], object], *, slow: bool) -> None:
        """See to it that workers look for a job after its commit, which was before this call."""
        now = time.monotonic()
        is_rush = now - self.enqueued[0] < (SLOW if slow else FAST)
        if now < self.until and (now < self.renew_at or not is_rush):
            return
        if not is_rush:
            send(notice)
            return
        goes_on = now < self.until + self.lasts
        lasts = self.lasts = min(LONGER * self.lasts, LONGEST_RUSH) if goes_on else SHORTEST_RUSH
        self.renew_at = now + lasts * 0.75  # so that one thread renews it, while the others can still rely on it
        send(rush_request(*notice, lasts))
        self.until = now + lasts


@lru_cache(1000)
def rush_of(database: str, notice: Notice) -> Rush:
    """Return the rush of this process; a forgotten one costs a notification."""
    return Rush()
