"""A worker process: claims what it can start soon, runs and settles it, and gives back the rest when it must end."""

from __future__ import annotations

import inspect
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from django.db import connections, reset_queries

from djqueue import maintenance, registry
from djqueue.conf import config
from djqueue.current import Holding
from djqueue.identity import identity
from djqueue.lifecycle import announce, settle
from djqueue.lifecycle import unknown as unknown_tasks
from djqueue.lifecycle.claim import ClaimedJob, claim
from djqueue.listener import listener
from djqueue.records import Settled, Settlement
from djqueue.states import Outcome

from .board import Board, Claim
from .budget import COROUTINES, LOOK_AGAIN, Budget
from .completer import Completer
from .options import Options
from .pulse import Pulse, pause
from .threads import Loop, Threads

logger = logging.getLogger("djqueue")

# How long to wait for a wake-up while the listener is well; it looks for itself every few seconds.
LONG_WAIT = 60.0
# More unknown tasks than that in one claim: there will be others behind them.
FEW = 10
# How long outcomes may take to be written at the end.
LAST_FLUSH = 10.0


class Worker:
    """Claimer, hands and completer of one process; the thread that calls `run` is the claimer.

    Its board is read by whoever renews the leases: the supervisor, or a thread beside it.
    """

    def __init__(self, options: Options, board: Board | None = None, *, replaceable: bool = False) -> None:
        self.options = options
        self.board = board or Board()
        self.replaceable = replaceable
        self.pulse = Pulse()
        self.bell = threading.Event()
        self.draining = ""  # the reason
        self.deadline = math.inf  # for what runs, once we drain
        self.forced = False
        self.relayed = 0
        self.on_news: Callable[[], None] = lambda: None
        self.held: dict[Claim, Holding] = {}
        self.alone: Holding | None = None  # a job that once met a crash: nothing runs beside it
        self.budget = Budget(options)
        self.completer = Completer(self._finished, self.pulse, lambda: self.budget.in_hand)
        self.threads = Threads(options.threads, self._started, self._report, self._injured)
        self.loop = Loop(COROUTINES, self._started, self._report)

    def run(self) -> int:
        """Work until told to end; gives the exit code."""
        registry.discover()
        self.completer.start()
        self.threads.start()
        self.loop.start()
        with listener().watching(None, self.bell.set):
            self._claim_until_drained()
        self._drain()
        return 1 if self.forced else 0

    def drain(self, reason: str, within: float | None = None) -> None:
        """Claim no more, give back what was not begun, end when what runs has ended, or after so many seconds."""
        if within is not None:
            self.deadline = min(self.deadline, time.monotonic() + within)
        if not self.draining:
            self.draining = reason
            logger.info("draining worker=%s reason=%r running=%d", identity(), reason, self.budget.running)
            self.on_news()
        self.bell.set()

    def force(self) -> None:
        """Give up what runs."""
        self.forced = True
        self.bell.set()

    # Claim

    def _claim_until_drained(self) -> None:
        failures = 0
        while not self.draining:
            self.bell.clear()
            reset_queries()  # with DEBUG, Django would keep the texts of thousands of them
            try:
                more = self._tend_alone() if self.alone else self._claim()
                if not more and self.options.burst and self._is_idle():
                    return
                failures = 0
            except Exception as error:
                failures += 1
                self.pulse.failed("claiming", error)
                self.bell.wait(pause(failures))
                continue
            if not more:
                wait = LONG_WAIT if listener().is_well else config().poll_interval
                # What woke us may have been news of a queue that was not among those that we looked for a moment ago.
                self.bell.wait(wait if self.budget.is_fresh else LOOK_AGAIN)

    def _claim(self) -> bool:
        """Claim once; True when there may be more to claim at once."""
        wants = self.budget.wants()
        if not wants:
            return False
        jobs = claim(wants, limit=self.budget.room, started=False, worker=identity())
        self.budget.claimed()
        holdings = [self._hold(job) for job in jobs]
        known = [holding for holding in holdings if not holding.unknown]
        if any(holding.job.row.crashes for holding in known):
            self._keep_one_alone(known)
        else:
            for holding in known:
                self._submit(holding)
        self._put_back([holding for holding in holdings if holding.unknown])
        if len(jobs) < sum(wants.values()):
            self.budget.look_again()
        return bool(jobs) or not self.budget.is_fresh

    def _hold(self, job: ClaimedJob) -> Holding:
        task = registry.find(job.task)
        holding = Holding(job, task is not None and inspect.iscoroutinefunction(task.func), task is None)
        holding.place = self.board.put(holding.claim, job.lease)
        self.held[holding.claim] = holding
        self.budget.took(job, holding.coroutine)
        return holding

    def _submit(self, holding: Holding) -> None:
        (self.loop if holding.coroutine else self.threads).submit(holding)

    def _put_back(self, unknown: list[Holding]) -> None:
        """What no task here is named for; where there are many of them, those behind them too."""
        for holding in unknown:
            self._report(holding, unknown_tasks.settlement(holding.job))
        if len(unknown) > FEW:
            for queue in {holding.job.queue for holding in unknown}:
                tasks = {holding.job.task for holding in unknown if holding.job.queue == queue}
                put = unknown_tasks.put_back(queue, tasks)
                logger.warning("jobs of unknown tasks put back queue=%s tasks=%s jobs=%d", queue, sorted(tasks), put)

    def _keep_one_alone(self, holdings: list[Holding]) -> None:
        """Keep the first that met a crash, and give back all the others that have not begun."""
        self.alone = next(holding for holding in holdings if holding.job.row.crashes)
        self._give_back(holding for holding in [*holdings, *self._take_back()] if holding is not self.alone)

    def _tend_alone(self) -> bool:
        """Start the job that must be alone when all others have ended; True when it has ended itself."""
        assert self.alone is not None
        if self.alone.claim not in self.held:
            self.alone = None
            return True
        if not self.alone.submitted and len(self.held) == 1:
            self.alone.submitted = True
            self._submit(self.alone)
        return False

    def _is_idle(self) -> bool:
        """Whether a burst is over: nothing in hand, nothing due."""
        if self.budget.in_hand:
            return False
        self.budget.look_again()
        return not maintenance.promote() and not self.budget.wants()

    # What the hands tell

    def _started(self, holding: Holding, timeout: float | None) -> None:
        holding.started = True
        holding.started_at = time.monotonic()
        deadline = 0.0 if timeout is None else holding.started_at + timeout
        self.board.run(holding.place, holding.claim, holding.job.lease, deadline)
        self.budget.started()

    def _report(self, holding: Holding, settlement: Settlement) -> None:
        took = time.monotonic() - holding.started_at if holding.started else None
        self.board.end(holding.place)
        self.budget.ended(holding.job, holding.coroutine, took)
        holding.seconds = took or 0.0
        holding.reported = True
        self.completer.report(holding, settlement)
        if holding.coroutine or self.budget.is_low:
            self.bell.set()

    def _injured(self) -> None:
        """A timeout was raised somewhere in a thread: who knows which locks it left behind."""
        if self.replaceable:
            self.drain("a timeout was raised in it")

    def _finished(self, holding: Holding, settlement: Settlement, answer: Settled) -> None:
        """Called by the completer when the outcome has committed."""
        job = holding.job
        if self.held.pop(holding.claim, None) is None:
            return  # it was given back while it ran, and has ended after all
        self.board.take_down(holding.place)
        self.budget.settled(holding.started)
        if logger.isEnabledFor(logging.INFO):
            logger.info(
                "%s job=%s task=%s queue=%s attempt=%d/%d seconds=%.3f%s",
                "lease lost" if answer.outcome == Outcome.LOST else answer.outcome,
                *(job.id, job.task, job.queue, job.attempt, job.max_attempts, holding.seconds),
                f" error={settlement.error.splitlines()[0]!r:.200}" if settlement.error else "",
            )
        if announce.is_heard(job.task, answer.outcome):
            self.threads.submit(partial(announce.settled, job, settlement, answer))
        if self.budget.is_spent:
            self.drain("it has run --max-jobs jobs")
        if self.alone or not self.held or self.budget.is_low:
            self.bell.set()

    # What others tell

    def hear(self, cancelled: Iterable[Claim], lost: Iterable[Claim]) -> None:
        """Some of what we hold should end, or is not ours any more."""
        for holding in filter(None, map(self.held.get, cancelled)):
            if not holding.cancel_requested:
                holding.cancel_requested = True
                self.loop.cancel(holding)
        for holding in filter(None, map(self.held.get, lost)):
            if not holding.lost and not holding.reported:  # else the completer will know
                holding.lost = True
                logger.warning("lease lost job=%s task=%s", holding.job.id, holding.job.task)

    def relay(self, *news: Any) -> None:
        """Announce what the supervisor has done."""
        self.threads.submit(partial(self._announce, news))

    def _announce(self, news: tuple[Any, ...]) -> None:
        try:
            announce.relayed(*news)
        finally:
            with self.budget.lock:
                self.relayed += 1
            self.on_news()  # at once: if we die first, another process announces it again

    def take_relayed(self) -> int:
        """How many announcements were made since the last call."""
        with self.budget.lock:
            relayed, self.relayed = self.relayed, 0
        return relayed

    def take_progress(self) -> dict[Claim, str]:
        """What tasks have told of their progress since the last call."""
        told = {}
        for holding in list(self.held.values()):
            if (text := holding.progress) is not None:
                told[holding.claim] = text
                if holding.progress is text:
                    holding.progress = None
        return told

    # Drain

    def _take_back(self) -> list[Holding]:
        return self.threads.take_back() + self.loop.take_back()

    def _give_back(self, holdings: Iterable[Holding]) -> None:
        for holding in holdings:
            self._report(holding, settle.release(holding.job))

    def _drain(self) -> None:
        """Give back what was not begun, let what runs end within its time, then give that back too."""
        unbegun = self._take_back()
        if self.alone and not self.alone.submitted:
            unbegun.append(self.alone)
        self._give_back(unbegun)
        while self.held and time.monotonic() < self.deadline and not self.forced:
            self.bell.wait(0.05)
            self.bell.clear()
        left = [holding for holding in list(self.held.values()) if not holding.reported]
        for holding in left:
            logger.warning("released while running job=%s task=%s", holding.job.id, holding.job.task)
        self._give_back(left)
        self.completer.close(LAST_FLUSH)
        if not left:
            self.threads.stop(max(1.0, min(config().shutdown_grace, self.deadline - time.monotonic())))
            self.loop.stop()
        connections.close_all()
