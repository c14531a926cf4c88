"""A worker process: claims what it can start soon, runs and settles it, and gives back the rest when it must end."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FrameType

from django.db import DatabaseError, InterfaceError, connections

from djqueue import maintenance, registry
from djqueue.conf import config
from djqueue.current import Holding
from djqueue.identity import identity
from djqueue.lifecycle import announce, settle
from djqueue.lifecycle.claim import claim
from djqueue.listener import listener
from djqueue.records import Settled, Settlement
from djqueue.sql import statements
from djqueue.states import Outcome

from .completer import Completer
from .duties import Duties
from .executor import is_async
from .leases import Leases
from .threads import Loop, Threads

logger = logging.getLogger("djqueue")

ASYNC_BOUND = 100
# So much work, in seconds, may lie ready behind the threads: enough to keep them busy during a round trip.
WORK_IN_HAND = 0.05
MOST_IN_HAND = 200


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line says."""

    queues: Mapping[str, int | None] = field(default_factory=dict)  # with their concurrency; empty for all
    exclude: Sequence[str] = ()
    threads: int = 4
    burst: bool = False
    max_jobs: int | None = None
    maintenance: bool = True


class Worker:
    """Claimer, hands, completer and leases of one process; the thread that calls `run` is the claimer."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.bell = threading.Event()
        self.draining = False
        self.forced = False
        self.lock = threading.Lock()
        self.in_hand: Counter[str] = Counter()  # by queue: claimed and not yet settled
        self.running = 0
        self.finished_jobs = 0
        self.average = WORK_IN_HAND
        self.turn = 0
        self.leases = Leases(self._cancelled)
        self.completer = Completer(self._finished)
        self.threads = Threads(options.threads, self._started, self.completer.report)
        self.loop = Loop(ASYNC_BOUND, self._started, self.completer.report)
        self.duties = Duties() if options.maintenance else None

    def run(self) -> int:
        """Work until told to end; gives the exit code."""
        registry.discover()
        self.leases.start()
        self.completer.start()
        self.threads.start()
        self.loop.start()
        if self.duties:
            self.duties.start()
        with listener().watching(None, self.bell.set):
            self._claim_until_drained()
        self._drain()
        return 1 if self.forced else 0

    def stop(self, number: int = signal.SIGTERM, frame: FrameType | None = None) -> None:
        """Drain; called a second time, give up what runs."""
        self.forced = self.draining
        self.draining = True
        # A handler interrupts this very thread, perhaps with a lock in hand: another one does what takes locks.
        threading.Thread(target=self._stopping, args=[signal.Signals(number).name], daemon=True).start()

    def _stopping(self, reason: str) -> None:
        logger.info("stopping reason=%s %s", reason, "at once" if self.forced else "draining")
        self.bell.set()

    # Claim

    def _claim_until_drained(self) -> None:
        failures = 0
        while not self.draining:
            self.bell.clear()
            try:
                more = self._claim()
                if not more and self.options.burst and self._is_idle():
                    return
                failures = 0
            except (DatabaseError, InterfaceError) as error:
                failures += 1
                logger.warning("claiming failed, trying again error=%s", error)
                connections.close_all()
                self.bell.wait(min(5.0, 0.05 * 2 ** min(failures, 8)))
                continue
            if not more:
                self.bell.wait(config().poll_interval)

    def _claim(self) -> bool:
        """Claim once; True when there may be more to claim at once."""
        free = self._free()
        wants = self._wants(free)
        if not wants:
            return False
        jobs = claim(wants, limit=free, started=False, worker=identity())
        with self.lock:
            self.in_hand.update(job.queue for job in jobs)
        for holding in map(Holding, jobs):
            self.leases.hold(holding)
            (self.loop if is_async(holding.job) else self.threads).submit(holding)
        got = Counter(job.queue for job in jobs)
        return any(got[queue] == wanted for queue, wanted in wants.items())

    def _wants(self, free: int) -> dict[str, int]:
        """Shares of what is free, one for each queue that has something, beginning with another one each time."""
        if free <= 0:
            return {}
        names = [
            name
            for name in statements().claimable_queues()
            if name not in self.options.exclude and (not self.options.queues or name in self.options.queues)
        ]
        if not names:
            return {}
        self.turn += 1
        names = names[self.turn % len(names) :] + names[: self.turn % len(names)]
        share = math.ceil(free / len(names))
        wants = {name: min(share, self._permits(name)) for name in names[:free]}
        return {name: count for name, count in wants.items() if count > 0}

    def _free(self) -> int:
        """How many more jobs can be started soon; 0 while the store behind the threads is more than half full."""
        with self.lock:
            held = self.in_hand.total()
        store = min(MOST_IN_HAND, self.options.threads * WORK_IN_HAND / max(self.average, 1e-4))
        most = int(self.options.threads + store)
        if self.options.max_jobs is not None:
            most = min(most, self.options.max_jobs - self.finished_jobs)
        return most - held if held < self.options.threads or held <= most / 2 else 0

    def _permits(self, queue: str) -> int:
        """How many more of this queue's jobs may be in our hands."""
        limit = self.options.queues.get(queue) or config().queue(queue).concurrency
        if limit is None:
            return MOST_IN_HAND
        with self.lock:
            return max(0, limit - self.in_hand[queue])

    def _is_idle(self) -> bool:
        """Whether a burst is over: nothing in hand, nothing due."""
        with self.lock:
            if self.in_hand.total():
                return False
        return not maintenance.promote() and not self._wants(1)

    # What the hands tell

    def _started(self, holding: Holding) -> None:
        holding.started = True
        holding.started_at = time.monotonic()
        with self.lock:
            self.running += 1

    def _cancelled(self, holding: Holding) -> None:
        self.loop.cancel(holding)

    def _finished(self, holding: Holding, settlement: Settlement, answer: Settled) -> None:
        """Called by the completer when the outcome has committed."""
        job = holding.job
        self.leases.let_go(holding)
        took = time.monotonic() - holding.started_at if holding.started else 0.0
        with self.lock:
            self.in_hand[job.queue] -= 1
            if holding.started:
                self.running -= 1
                self.finished_jobs += 1
                self.average += 0.1 * (took - self.average)
        logger.info(
            "%s job=%s task=%s queue=%s attempt=%d/%d seconds=%.3f%s",
            "lease lost" if answer.outcome == Outcome.LOST else answer.outcome,
            *(job.id, job.task, job.queue, job.attempt, job.max_attempts, took),
            f" error={settlement.error.splitlines()[0]!r:.200}" if settlement.error else "",
        )
        if announce.is_heard(job.task, answer.outcome):
            self.threads.submit(partial(announce.settled, job, settlement, answer))
        if self.options.max_jobs is not None and self.finished_jobs >= self.options.max_jobs:
            self.draining = True
        self.bell.set()

    # Drain

    def _drain(self) -> None:
        """Give back what was not begun, let what runs end within SHUTDOWN_GRACE, then give that back too."""
        for holding in self.threads.take_back() + self.loop.take_back():
            self.completer.report(holding, settle.release(holding.job))
        deadline = time.monotonic() + config().shutdown_grace
        while self._holds_something() and time.monotonic() < deadline and not self.forced:
            self.bell.wait(0.05)
            self.bell.clear()
        with self.leases.lock:
            left = list(self.leases.held.values())
        for holding in left:
            logger.warning("released while running job=%s task=%s", holding.job.id, holding.job.task)
            self.completer.report(holding, settle.release(holding.job))
        if self.duties:
            self.duties.stop()
        self.completer.close(10)
        self.leases.stop()
        if not left:
            self.threads.stop()
            self.loop.stop()
        connections.close_all()

    def _holds_something(self) -> bool:
        with self.lock:
            return self.in_hand.total() > 0
