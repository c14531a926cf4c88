"""The jobs that this process has claimed and not yet settled, and the mark in their rows that they have started."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from django.db import close_old_connections

from djqueue.core.durations import Duration
from djqueue.core.log import logger
from djqueue.core.records import Renew, Settlement
from djqueue.lifecycle import lease
from djqueue.lifecycle.claim import ClaimedJob
from djqueue.worker.held_jobs import Claim, HeldJobs
from djqueue.worker.outages import Outages

# The assumed run time of a thread's job, in seconds, before any has run.
FIRST_AVERAGE = 0.05


@dataclass(eq=False)
class Holding:
    """A claimed job of this process, and what the process has learnt about it since the claim."""

    job: ClaimedJob
    coroutine: bool = False
    unknown: bool = False  # no task with its name is registered here
    place: int = 0  # in the shared memory
    marked: bool = False  # as started, in its row
    started: bool = False
    started_at: float = 0.0  # monotonic
    seconds: float = 0.0  # that it ran
    reported: bool = False  # its outcome has been passed to the completer
    lost: bool = False  # its lease is lost: another worker may run it
    cancel_requested: bool = field(init=False)
    claim: tuple[UUID, UUID] = field(init=False)
    progress: str | None = None  # reported by the task and not yet written
    # An error of the task, and the delay until the next attempt after it; None if there must be none.
    decision: tuple[BaseException, Duration | None] | None = None
    error: BaseException | None = None  # what the task raised, until it is logged

    def __post_init__(self) -> None:
        self.cancel_requested = self.job.cancel_requested
        self.claim = (self.job.id, self.job.token)

    def lose(self) -> None:
        self.lost = True
        self.wake_waiters()

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake` whenever a cancel is requested or the lease is lost; it must not block."""
        waiters = vars(self).setdefault("waiters", [])  # few jobs wait: the others do not pay for it
        waiters.append(wake)
        try:
            yield
        finally:
            waiters.remove(wake)

    def wake_waiters(self) -> None:
        for wake in list(vars(self).get("waiters", ())):
            wake()


@dataclass
class Counts:
    """How many jobs the process holds, and how long they take; written under the lock of InHand."""

    total: int = 0  # claimed and not yet settled
    by_queue: Counter[str] = field(default_factory=Counter)  # waiting or running, as are the next two
    for_threads: int = 0
    for_loop: int = 0
    running: int = 0  # started, and not yet settled
    running_in_threads: int = 0
    last_start: float = 0.0  # when a thread last started a job, monotonic
    finished: int = 0  # jobs that have run and are settled
    average: float = FIRST_AVERAGE  # run time of a thread's job, in seconds
    coroutine_queues: set[str] = field(default_factory=set)  # that have had coroutines
    plain_queues: set[str] = field(default_factory=set)  # that have had plain functions


class InHand:
    """Every job of this process, from the claim until its outcome is committed.

    A job goes through `take`, `start`, `end` and `drop`; one that never starts goes from `take` to `end` (it is given
    back) or straight to `drop` (it is handed over to another process). The threads of the process and its supervisor
    rely on these invariants:

    - A job is in the shared memory before it can run, and before the claim is noted there as finished. So the
      supervisor renews its lease, and knows about it if this process is killed.
    - A job is shown as running only after it is marked as started in its row, and before its code is called.
    - An outcome is reported once. A job may end at the very moment at which it is given back: the first report counts.
    - The outcome is in the shared memory before the completer gets it, so a crash cannot lose it.
    - A job leaves the shared memory only after its outcome is committed, or after another process holds it.
    - The counts change last. Room for another claim appears only after the place in the shared memory is free, and
      `finished` grows together with it, so that --max-jobs is never exceeded.

    `held` and `unmarked` are read without the lock: single operations on a dict are atomic.
    """

    def __init__(self, held_jobs: HeldJobs) -> None:
        self.held_jobs = held_jobs
        self.held: dict[Claim, Holding] = {}
        self.unmarked: dict[Claim, Holding] = {}  # not yet marked as started in their rows
        self.counts = Counts()
        self.lock = threading.Lock()

    def take(self, job: ClaimedJob, *, coroutine: bool, unknown: bool = False, marked: bool) -> Holding:
        """Hold a job that was claimed."""
        holding = Holding(job, coroutine, unknown)
        holding.marked = marked
        holding.place = self.held_jobs.add(holding.claim, job.lease)
        self.held[holding.claim] = holding
        if not marked:
            self.unmarked[holding.claim] = holding
        counts = self.counts
        with self.lock:
            counts.total += 1
            counts.by_queue[job.queue] += 1
            if coroutine:
                counts.for_loop += 1
                counts.coroutine_queues.add(job.queue)
            else:
                counts.for_threads += 1
                counts.plain_queues.add(job.queue)
        return holding

    def mark(self, holding: Holding) -> None:
        """Note that a job is marked as started in its row."""
        holding.marked = True
        self.unmarked.pop(holding.claim, None)

    def start(self, holding: Holding, timeout: float | None) -> None:
        """Note that a job starts to run."""
        holding.started = True
        holding.started_at = time.monotonic()
        deadline = 0.0 if timeout is None else holding.started_at + timeout
        self.held_jobs.start(holding.place, holding.claim, holding.job.lease, deadline)
        counts = self.counts
        with self.lock:
            counts.running += 1
            if not holding.coroutine:
                counts.running_in_threads += 1
                counts.last_start = time.monotonic()

    def end(self, holding: Holding, settlement: Settlement) -> bool:
        """Note the outcome of a job; return False, and change nothing, if it has one already."""
        with self.lock:
            if holding.reported:
                return False
            holding.reported = True
        if ran := holding.started:
            holding.seconds = time.monotonic() - holding.started_at
        self.held_jobs.end(holding.place, settlement)
        with self.lock:
            self._count_end(holding, ran)
        return True

    def drop(self, holding: Holding) -> bool:
        """Stop holding a job, which is settled or held by another process; return False if it was not held."""
        self.unmarked.pop(holding.claim, None)
        if self.held.pop(holding.claim, None) is None:
            return False
        self.held_jobs.remove(holding.place)
        counts = self.counts
        with self.lock:
            if not holding.reported:
                self._count_end(holding, ran=False)
            counts.total -= 1
            if holding.started:
                counts.running -= 1
                counts.finished += 1
        return True

    def _count_end(self, holding: Holding, ran: bool) -> None:
        """Count a job that neither waits nor runs any more."""
        counts = self.counts
        counts.by_queue[holding.job.queue] -= 1
        if holding.coroutine:
            counts.for_loop -= 1
        else:
            counts.for_threads -= 1
            if ran:
                counts.running_in_threads -= 1
                counts.average += 0.1 * (holding.seconds - counts.average)


class Starter:
    """Writes to a job's row that it has started, before it runs; used by all threads that run jobs.

    If the whole machine is lost, a job that is not marked as started keeps its attempt.
    """

    def __init__(
        self, in_hand: InHand, give_back: Callable[[Iterable[Holding]], None], outages: Outages, threads: int
    ) -> None:
        self.in_hand = in_hand
        self.give_back = give_back
        self.outages = outages
        self.threads = threads
        self.marking = threading.Lock()

    def start(self, holding: Holding, timeout: float | None) -> bool:
        """Note that a job starts, first in its row; return False if that failed, and the job was given back.

        The rows of the jobs that come next are written by the same statement: as many as there are threads.
        """
        if not holding.marked:
            with self.marking:
                if not holding.marked:  # another thread may have done it meanwhile
                    following = [other for other in list(self.in_hand.unmarked.values()) if other is not holding]
                    self.mark([holding, *following[: self.threads - 1]])
        if not holding.marked:
            self.give_back([holding])
            return False
        self.in_hand.start(holding, timeout)
        if logger.isEnabledFor(logging.DEBUG):
            job = holding.job
            details = (job.id, job.task, job.queue, job.attempt, job.max_attempts)
            logger.debug("started job=%s task=%s queue=%s attempt=%d/%d", *details)
        return True

    def mark(self, holdings: list[Holding]) -> None:
        """Write to their rows that these jobs start; one that is not `marked` afterwards must not run."""
        try:
            close_old_connections()
            with self.outages.watching("marking jobs as started"):
                answers = lease.renew_many([_started(holding) for holding in holdings])
        except Exception as error:
            self.outages.failed("marking jobs as started", error)
            return
        for holding in holdings:
            answer = answers[holding.claim]
            if answer is not None and answer.expires_at:
                self.in_hand.mark(holding)


def _started(holding: Holding) -> Renew:
    job, token = holding.claim
    return Renew(id=job, token=token, lease=holding.job.lease, started=True)
