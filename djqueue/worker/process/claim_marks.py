"""The place of the first pending job of a queue, remembered while it is slow to find.

A transaction that stays open for minutes keeps PostgreSQL from removing the index entries of jobs that were claimed
meanwhile, and every claim walks over all of them. So after a slow claim the next ones begin where that one ended. A
job that arrives before that place (a retry, a promoted job, a late commit) is found when the mark is dropped, a few
seconds later; a job of a higher priority is found immediately.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence

from djqueue.core.records import Mark
from djqueue.lifecycle.claim import ClaimedJob

# A claim of few jobs that takes longer than SLOW seconds may have walked over many index entries. Only several in a row
# count: a single one may have had to connect, or to wait for a processor.
SLOW, FEW, IN_A_ROW = 0.005, 50, 4
FORGET_AFTER = 2.0
# If none of so many claims from a mark is clearly faster, the walk is not the cause: use no marks for some seconds.
TRIES = 3
NOT_THE_CAUSE_FOR = 30.0


class ClaimMarks:
    """The marks of one process, each the last job that was claimed from a queue; used by its claimer alone."""

    def __init__(self) -> None:
        self.known: dict[str, Mark] = {}
        self.until = 0.0  # monotonic, when the marks are forgotten
        self.is_the_cause = False  # claims from a mark have been faster
        self.slow = 0  # claims from the beginning in a row that were slow
        self.walk = 0.0  # seconds of the fastest of them
        self.best = math.inf  # seconds of the fastest claim from a mark since
        self.tries = 0
        self.off_until = 0.0

    def queues(self) -> list[str]:
        """Return the queues of which it is slow to find out whether they have anything."""
        return list(self.known) if self.is_the_cause else []

    def marks(self, queues: Iterable[str]) -> dict[str, Mark]:
        """Return where the next claim of these queues may begin."""
        if not self.known or time.monotonic() >= self.until:
            return {}
        return {queue: self.known[queue] for queue in queues if queue in self.known}

    def learn(
        self, queues: Iterable[str], marks: Mapping[str, Mark], jobs: Sequence[ClaimedJob], seconds: float
    ) -> None:
        """Learn from a claim of these queues that began at these marks and took so many seconds."""
        if marks:
            self._compare(seconds)
        elif seconds <= SLOW or len(jobs) > FEW:
            self._forget()
            return
        else:
            self.walk = min(self.walk, seconds) if self.slow else seconds
            self.slow += 1
            if self.slow < IN_A_ROW or time.monotonic() < self.off_until:
                return
            self.best, self.tries = math.inf, 0
            self.until = time.monotonic() + FORGET_AFTER
        self.known |= {job.queue: Mark(job.priority, job.enqueued_at, job.id) for job in jobs}

    def _compare(self, seconds: float) -> None:
        self.best = min(self.best, seconds)
        self.tries += 1
        if self.best < self.walk / 2:
            self.is_the_cause = True
        elif self.tries >= TRIES:
            self._forget()
            self.off_until = time.monotonic() + NOT_THE_CAUSE_FOR

    def _forget(self) -> None:
        self.known.clear()
        self.slow = 0
        self.is_the_cause = False
        self.until = 0.0
