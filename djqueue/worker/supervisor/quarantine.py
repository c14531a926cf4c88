"""Suspects, run one at a time in a separate process until it is known which of them caused the crash.

A process hands a suspect over as soon as it has claimed it, and continues with its other jobs. The supervisor lists the
job as held, and renews its lease, until the quarantine process lists it in its own part of the shared memory. At every
moment at least one of them lists the job.
"""

from __future__ import annotations

import time
from collections import deque

from djqueue.lifecycle.claim import ClaimedJob
from djqueue.worker.held_jobs import Claim, Entry, HeldJobs
from djqueue.worker.messages import TakeJob

from .child import Child

NO_PROCESS = -1  # the number of held jobs that belong to no process
# One supervisor must not keep all suspects: others may have room for them.
MOST_WAITING = 20
# The process exits after this many seconds without a job.
IDLE_AFTER = 5.0


class Quarantine:
    """Used by the supervisor's main thread; `held_here` may be read by other threads."""

    def __init__(self, held_jobs: HeldJobs) -> None:
        self.held_jobs = held_jobs  # by the process
        self.held_here = HeldJobs()  # waiting, or sent to the process
        self.held_here.number = NO_PROCESS
        self.places: dict[Claim, int] = {}
        self.waiting: deque[ClaimedJob] = deque()
        self.sent: ClaimedJob | None = None  # to the process, which has not reported yet that it has it
        self.process: Child | None = None
        self.busy_at = 0.0

    def add(self, job: ClaimedJob) -> bool:
        """Hold a job until it can run; return False if too many wait already."""
        if len(self.waiting) >= MOST_WAITING:
            return False
        claim = (job.id, job.token)
        self.places[claim] = self.held_here.add(claim, job.lease)
        self.waiting.append(job)
        return True

    def send_next(self) -> bool:
        """Send the process its next job; return whether it has been idle for a while."""
        if self.is_busy or self.process is None:
            self.busy_at = time.monotonic()
        if self.waiting and self.sent is None and self._is_ready and not any(self.held_jobs.read()):
            assert self.process is not None
            self.sent = self.waiting.popleft()
            self.process.send(TakeJob(self.sent))
        return time.monotonic() - self.busy_at > IDLE_AFTER

    def taken(self) -> None:
        """Stop holding the job that was sent: the process holds it."""
        if self.sent is not None:
            self._remove(self.sent)
            self.sent = None

    def lose_process(self, entries: list[Entry]) -> None:
        """Handle the exit of the process, which held these jobs: what it had not taken yet waits again."""
        self.process = None
        if self.sent is not None:
            if (self.sent.id, self.sent.token) in [entry.claim for entry in entries]:
                self._remove(self.sent)
            else:
                self.waiting.appendleft(self.sent)
            self.sent = None

    def clear(self) -> list[ClaimedJob]:
        """Stop holding the waiting jobs, and return them; the job that was sent may have started in the process."""
        waiting, self.waiting = list(self.waiting), deque()
        for job in waiting:
            self._remove(job)
        return waiting

    @property
    def is_busy(self) -> bool:
        return bool(self.waiting or self.sent or any(self.held_jobs.read()))

    @property
    def _is_ready(self) -> bool:
        return self.process is not None and self.process.status is not None and self.process.is_working

    def _remove(self, job: ClaimedJob) -> None:
        self.held_here.remove(self.places.pop((job.id, job.token)))
