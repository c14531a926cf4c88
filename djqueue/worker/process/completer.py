"""Settles outcomes in groups: what is reported while a statement runs goes into the next one."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial

from django.db import reset_queries

from djqueue.core.log import logger
from djqueue.core.records import Settled, Settlement
from djqueue.lifecycle import announce, outcome_log, settle
from djqueue.states import Outcome
from djqueue.worker.loops import UNTIL_WOKEN, Turns
from djqueue.worker.outages import Outages, pause
from djqueue.worker.threads import Fatal, VitalThread

from .budget import Budget
from .in_hand import Holding, InHand

GROUP = 500
# Seconds for which a group waits to grow while more jobs are held than have been reported.
LINGER = 0.003
# Rows that another transaction has locked are tried again after this time, apart from the others.
TRY_LOCKED_AGAIN = 0.1

Outcomes = list[tuple[Holding, Settlement]]


class Completer:
    """One thread; outcomes are kept until they are committed, however long the database is unavailable.

    `call` calls a function in a thread of the pool. `settled` is called whenever an outcome has committed. `wakeup`
    wakes the claimer.
    """

    def __init__(
        self,
        in_hand: InHand,
        budget: Budget,
        wakeup: threading.Event,
        call: Callable[[Callable[[], None]], None],
        settled: Callable[[], None],
        outages: Outages,
        fatal: Fatal,
    ) -> None:
        self.in_hand = in_hand
        self.budget = budget
        self.wakeup = wakeup
        self.call = call
        self.settled = settled
        self.outages = outages
        self.inbox: queue.SimpleQueue[tuple[Holding, Settlement] | None] = queue.SimpleQueue()
        self.locked: Outcomes = []
        self.try_locked_at = 0.0
        self.closing = False
        self.turns = Turns()
        self.thread = VitalThread(self._run, "djqueue-completer", fatal)

    def start(self) -> None:
        self.thread.start()

    def report(self, holding: Holding, settlement: Settlement) -> None:
        """Settle a job soon, unless it has an outcome already, and let the claimer claim more."""
        if not self.in_hand.end(holding, settlement):
            return
        self.inbox.put((holding, settlement))
        if not self.wakeup.is_set() and (holding.coroutine or self.budget.is_low):
            self.wakeup.set()

    def give_back(self, holdings: Iterable[Holding]) -> None:
        """Return jobs to their queues, with their attempts unspent."""
        for holding in holdings:
            self.report(holding, settle.release(holding.job))

    def close(self, timeout: float | None = None) -> bool:
        """Settle what is left and stop; return False if that took longer than the timeout."""
        self.inbox.put(None)
        self.thread.join(timeout)
        return not self.thread.is_alive()

    def _run(self) -> None:
        while not self.closing or self.locked:
            group = self._next_group()
            if group:
                self._settle(group)
            if self.locked and time.monotonic() >= self.try_locked_at:
                locked, self.locked = self.locked, []
                self._settle(locked)
            reset_queries()

    def _next_group(self) -> Outcomes:
        """Wait for an outcome and return all there are; none when a locked row should be tried again, or at the end."""
        group: Outcomes = []
        try:
            wait = max(0.0, self.try_locked_at - time.monotonic()) if self.locked else None
            self.turns.good(rest=UNTIL_WOKEN if wait is None else wait)  # what was settled before was good
            item = self.inbox.get(timeout=wait)
            self.turns.good()
            if item is not None and self.inbox.qsize() + 1 < min(GROUP, self.in_hand.counts.total):
                time.sleep(LINGER)
            while item is not None:
                group.append(item)
                if len(group) == GROUP:
                    return group
                item = self.inbox.get_nowait()
            self.closing = True
        except queue.Empty:
            pass  # these are all
        return group

    def _settle(self, group: Outcomes, again: bool = True) -> None:
        answers = self._until_taken([settlement for _, settlement in group])
        refused: Outcomes = []
        for (holding, settlement), answer in zip(group, answers, strict=True):
            if not isinstance(answer, Exception):
                self._finish(holding, settlement, answer)
            elif again:
                # The database refuses the data of this outcome: fail the job with an error that can be stored.
                refused.append((holding, settle.nack(holding.job, f"outcome cannot be stored: {answer}")))
            else:
                # Only the class of the error, whose message may contain the data that was refused.
                details = (holding.job.id, holding.job.task, type(answer).__name__)
                logger.error(
                    "outcome rejected by the database, left to the reaper job=%s task=%s exception=%s", *details
                )
                self._finish(holding, settlement, Settled(Outcome.LOST))
        if refused:
            self._settle(refused, again=False)

    def _finish(self, holding: Holding, settlement: Settlement, answer: Settled) -> None:
        if answer.outcome == Outcome.LOCKED:
            self.locked.append((holding, settlement))
            self.try_locked_at = time.monotonic() + TRY_LOCKED_AGAIN
            return
        try:
            if self.in_hand.drop(holding):  # else it was given back while it ran, and has ended after all
                job = holding.job
                error, holding.error = holding.error, None  # its traceback refers to this holding
                outcome_log.write(job, job.attempt, settlement, answer, holding.seconds, error)
                if announce.has_receivers(holding.job.task, answer.outcome):
                    announcement = partial(announce.settled, job, settlement, answer, error)
                    if announce.calls_the_project(job.task, answer.outcome):
                        self.call(announcement)
                    else:
                        announcement()
                self.settled()
        except Exception:
            logger.exception("failed after settling job=%s", holding.job.id)

    def _until_taken(self, settlements: list[Settlement]) -> list[Settled | Exception]:
        failures = 0
        while True:
            try:
                with self.outages.watching(f"settling {len(settlements)} jobs"):
                    return settle.settle_many(settlements)
            except Exception as error:
                failures += 1
                self.outages.failed(f"settling {len(settlements)} jobs", error)
                time.sleep(pause(failures))
