"""The jobs that this process has claimed and not yet settled, and the mark in their rows that they have started."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
# The same of a coroutine, most of which wait for something.
FIRST_LOOP_AVERAGE = 1.0
# The share of the newest job in the average, and the seconds by which it may exceed twice the average: one that had to
# wait for Python's lock says nothing about the next ones.
NEWEST, EXCESS = 0.1, 0.0005


class Kind(NamedTuple):
    """What the jobs of one task in one queue have in common; looked up once for the hundreds that a claim returns."""

    func: Callable[..., Any] | None = None  # of the task; None if no task with this name is registered here
    coroutine: bool = False
    timeout: float | None = None  # in seconds, of jobs that do not have their own


UNKNOWN = Kind()


class Holding:
    """A claimed job of this process, and what the process has learnt about it since the claim."""

    place = 0  # in the shared memory
    started = False
    started_at = 0.0  # monotonic
    seconds = 0.0  # that it ran
    reported = False  # its outcome has been passed to the completer
    lost = False  # its lease is lost: another worker may run it
    progress: str | None = None  # reported by the task and not yet written
    # An error of the task, and the delay until the next attempt after it; None if there must be none.
    decision: tuple[BaseException, Duration | None] | None = None
    error: BaseException | None = None  # what the task raised, until it is logged

    def __init__(self, job: ClaimedJob, kind: Kind = UNKNOWN, *, marked: bool = False) -> None:
        self.job = job
        self.kind = kind
        self.coroutine = kind.coroutine
        self.marked = marked  # as started, in its row
        self.cancel_requested = job.cancel_requested
        self.claim: Claim = (job.id, job.token)

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
    running_in_loop: int = 0
    last_start: float = 0.0  # when a thread last started a job, monotonic
    last_start_in_loop: float = 0.0
    finished: int = 0  # jobs that have run and are settled
    average: float = FIRST_AVERAGE  # run time of a thread's job, in seconds
    loop_average: float = FIRST_LOOP_AVERAGE  # the same of a coroutine
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
      after `finished` has grown, so that --max-jobs is never exceeded.

    `held` and `unmarked` are read without the lock: single operations on a dict are atomic. They are sets that keep the
    order. Jobs come and go by the hundred, so one turn of the lock serves a group.
    """

    def __init__(self, held_jobs: HeldJobs) -> None:
        self.held_jobs = held_jobs
        self.held: dict[Holding, bool] = {}
        self.unmarked: dict[Holding, bool] = {}  # not yet marked as started in their rows
        self.counts = Counts()
        self.lock = threading.Lock()

    def take(self, holdings: Sequence[Holding]) -> None:
        """Hold jobs that were claimed."""
        for holding in holdings:
            holding.place = self.held_jobs.add(holding.claim, holding.job.lease)
            self.held[holding] = True
            if not holding.marked:
                self.unmarked[holding] = True
        counts = self.counts
        with self.lock:
            counts.total += len(holdings)
            for holding in holdings:
                queue = holding.job.queue
                counts.by_queue[queue] += 1
                if holding.coroutine:
                    counts.for_loop += 1
                    counts.coroutine_queues.add(queue)
                else:
                    counts.for_threads += 1
                    counts.plain_queues.add(queue)

    def find(self, claims: Iterable[Claim]) -> list[Holding]:
        """Return the jobs of these claims that are held."""
        wanted = set(claims)
        return [holding for holding in list(self.held) if holding.claim in wanted] if wanted else []

    def mark(self, holding: Holding) -> None:
        """Note that a job is marked as started in its row."""
        holding.marked = True
        self.unmarked.pop(holding, None)

    def start(self, holding: Holding, timeout: float | None) -> None:
        """Note that a job starts to run."""
        holding.started = True
        holding.started_at = now = time.monotonic()
        deadline = 0.0 if timeout is None else now + timeout
        self.held_jobs.start(holding.place, holding.claim, holding.job.lease, deadline)
        counts = self.counts
        with self.lock:
            counts.running += 1
            if holding.coroutine:
                counts.running_in_loop += 1
                counts.last_start_in_loop = now
            else:
                counts.running_in_threads += 1
                counts.last_start = now

    def end(self, holding: Holding, settlement: Settlement) -> bool:
        """Note the outcome of a job; return False, and change nothing, if it has one already."""
        now = time.monotonic()
        with self.lock:
            if holding.reported:
                return False
            holding.reported = True
            if ran := holding.started:
                holding.seconds = now - holding.started_at
            self.held_jobs.end(holding.place, settlement)
            self._count_end(holding, ran)
        return True

    def drop(self, holdings: Iterable[Holding]) -> list[Holding]:
        """Stop holding jobs, which are settled or held by another process; return those that were held."""
        dropped = []
        for holding in holdings:
            self.unmarked.pop(holding, None)
            if self.held.pop(holding, False):
                self.held_jobs.remove(holding.place)
                dropped.append(holding)
        counts = self.counts
        with self.lock:
            for holding in dropped:
                if not holding.reported:
                    self._count_end(holding, ran=False)
                if holding.started:
                    counts.running -= 1
                    counts.finished += 1
            counts.total -= len(dropped)  # last: the claimer reads the counts without the lock
        return dropped

    def _count_end(self, holding: Holding, ran: bool) -> None:
        """Count a job that neither waits nor runs any more."""
        counts = self.counts
        counts.by_queue[holding.job.queue] -= 1
        if holding.coroutine:
            counts.for_loop -= 1
            if ran:
                counts.running_in_loop -= 1
                counts.loop_average = _average(counts.loop_average, holding.seconds)
        else:
            counts.for_threads -= 1
            if ran:
                counts.running_in_threads -= 1
                counts.average = _average(counts.average, holding.seconds)


def _average(known: float, newest: float) -> float:
    return known + NEWEST * (min(newest, 2 * known + EXCESS) - known)


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
                    following = [other for other in list(self.in_hand.unmarked) if other is not holding]
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
