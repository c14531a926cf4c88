"""A worker process at work: claimer, threads, event loop and completer, until it drains."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial

from django.db import connections

from djqueue.conf import config
from djqueue.core import registry
from djqueue.core.identity import identity
from djqueue.core.log import logger
from djqueue.lifecycle import announce
from djqueue.lifecycle.claim import ClaimedJob
from djqueue.worker.held_jobs import Claim, HeldJobs
from djqueue.worker.options import Options
from djqueue.worker.outages import Outages
from djqueue.worker.threads import Fatal

from .budget import Budget
from .claimer import Claimer
from .completer import Completer
from .in_hand import InHand
from .pool import Pool

# How long outcomes may take to be written at the end.
LAST_FLUSH = 10.0


class Worker:
    """The thread that calls `run` is the claimer; every other method may be called by any thread."""

    def __init__(
        self,
        options: Options,
        held_jobs: HeldJobs | None = None,
        *,
        replaceable: bool = False,
        keep_plans: Callable[[], None] = lambda: None,
        fatal: Fatal,
    ) -> None:
        self.options = options
        self.replaceable = replaceable
        self.keep_plans = keep_plans  # called by the threads that claim and settle
        self.outages = Outages(fatal)
        self.wakeup = threading.Event()
        self.draining = ""  # the reason
        self.deadline = math.inf  # for running jobs, once it drains
        self.forced = False
        self.taken = 0
        self.signals_sent = 0  # for the supervisor, and not yet reported
        self.signals_lock = threading.Lock()
        self.report_now: Callable[[], None] = lambda: None
        self.in_hand = InHand(held_jobs or HeldJobs())
        self.budget = Budget(options, self.in_hand.counts)
        self.completer = Completer(
            self.in_hand, self.budget, self.wakeup, self._call_in_pool, self._settled, keep_plans, self.outages, fatal
        )
        self.pool = Pool(options.threads, self.in_hand, self.completer, self._timed_out, self.outages, fatal)
        self.claimer = Claimer(options, self.in_hand, self.budget, self.pool, self.completer, self.wakeup, self.outages)

    def run(self) -> int:
        """Work until drained; return the exit code."""
        registry.discover()
        self.outages.start()
        self.completer.start()
        self.pool.start()
        self.keep_plans()
        if self.options.takes_only:
            self._wait_until_drained()
        else:
            self.claimer.run()
        self._drain()
        return 1 if self.forced else 0

    def drain(self, reason: str, within: float | None = None) -> None:
        """Stop claiming, release jobs that have not started, and exit when running jobs end or `within` has passed."""
        if within is not None:
            self.deadline = min(self.deadline, time.monotonic() + within)
        first, self.draining = not self.draining, self.draining or reason
        self.claimer.stop()  # before anything is logged: that may block
        if first:
            self.report_now()
            running = self.in_hand.counts.running
            logger.info("draining worker=%s reason=%r running=%d", identity(), reason, running)

    @property
    def quiet(self) -> bool:
        """Return whether it claims no jobs, at the request of an operator."""
        return self.claimer.quiet

    def be_quiet(self, quiet: bool) -> None:
        """Stop claiming, or claim again. Jobs that are claimed already run; a claim that is under way ends first."""
        if quiet == self.quiet:
            return
        self.claimer.quiet = quiet  # before the wake-up
        self.wakeup.set()
        self.report_now()
        running = self.in_hand.counts.running
        logger.info("%s worker=%s running=%d", "quiet" if quiet else "resumed", identity(), running)

    def loops(self) -> dict[str, float]:
        """Return the seconds since the last good turn of each loop; a draining process has no claimer any more."""
        claimer = {} if self.options.takes_only or self.draining else {"claimer": self.claimer.turns.age}
        return claimer | {"completer": self.completer.turns.age}

    def force(self) -> None:
        """Release running jobs too, immediately."""
        self.forced = True
        self.wakeup.set()

    def take(self, job: ClaimedJob) -> None:
        """Run a job that another process has claimed."""
        holdings = self.claimer.hold([job], started=0)
        self.taken += 1
        self.report_now()
        self.pool.call(partial(self.pool.submit, holdings))

    def update(self, cancelled: Iterable[Claim], lost: Iterable[Claim]) -> None:
        """Cancel jobs, and note those whose leases are lost."""
        for holding in self.in_hand.find(cancelled):
            if not holding.cancel_requested:
                holding.cancel_requested = True
                self.pool.cancel(holding)  # before waking it: a coroutine could end before it is cancelled
                holding.wake_waiters()
        for holding in self.in_hand.find(lost):
            if not holding.lost and not holding.reported:  # if it has ended, the completer will find out
                holding.lose()
                logger.warning("lease lost %s", _details(holding.job))

    def send_signal(self, relayed: announce.Relayed) -> None:
        """Send a signal for the supervisor."""
        self.pool.call(partial(self._send_signal, relayed))

    def take_signals_sent(self) -> int:
        """Return how many signals were sent for the supervisor since the last call."""
        with self.signals_lock:
            sent, self.signals_sent = self.signals_sent, 0
        return sent

    def take_progress(self) -> dict[Claim, str]:
        """Return the progress that tasks have reported since the last call."""
        reported = {}
        for holding in list(self.in_hand.held):
            if (text := holding.progress) is not None:
                reported[holding.claim] = text
                if holding.progress is text:
                    holding.progress = None
        return reported

    def _send_signal(self, relayed: announce.Relayed) -> None:
        try:
            announce.send_relayed(relayed)
        finally:
            with self.signals_lock:
                self.signals_sent += 1
            self.report_now()  # immediately: if this process dies first, another one sends the signal again

    def _settled(self) -> None:
        """Called by the completer when outcomes have committed."""
        if self.budget.is_spent:
            self.drain("--max-jobs reached")
        if not self.wakeup.is_set() and (self.claimer.alone or not self.in_hand.held or self.budget.is_low):
            self.wakeup.set()

    def _call_in_pool(self, work: Callable[[], None]) -> None:
        self.pool.call(work)  # the pool is made after the completer, which it needs

    def _timed_out(self) -> None:
        """Replace the process after a timeout was raised in a thread: it may have left locks behind."""
        if self.replaceable:
            self.drain("a task timed out")

    def _wait_until_drained(self) -> None:
        while not self.draining:
            self.wakeup.wait()
            self.wakeup.clear()

    def _drain(self) -> None:
        """Give back what has not started, let running jobs finish within their time, then give them back too."""
        self.completer.give_back(self.pool.take_back() + self.claimer.take_back_alone())
        while self.in_hand.held and time.monotonic() < self.deadline and not self.forced:
            self.wakeup.wait(0.05)
            self.wakeup.clear()
        left = [holding for holding in list(self.in_hand.held) if not holding.reported]
        for holding in left:
            logger.warning("released while running %s", _details(holding.job))
        self.completer.give_back(left)
        self.completer.close(LAST_FLUSH)
        if not left:
            self.pool.stop(max(1.0, min(config().shutdown_grace, self.deadline - time.monotonic())))
        self.outages.stop()
        connections.close_all()


def _details(job: ClaimedJob) -> str:
    return f"job={job.id} task={job.task} queue={job.queue} attempt={job.attempt}/{job.max_attempts}"
