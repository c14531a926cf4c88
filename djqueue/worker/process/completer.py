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
from djqueue.lifecycle import admit, announce, outcome_log, settle
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
        keep_plans: Callable[[], None],
        outages: Outages,
        fatal: Fatal,
    ) -> None:
        self.in_hand = in_hand
        self.budget = budget
        self.wakeup = wakeup
        self.call = call
        self.settled = settled
        self.keep_plans = keep_plans
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
        counts, budget = self.in_hand.counts, self.budget
        is_low = (
            counts.for_loop <= budget.wake_for_loop_at if holding.coroutine else counts.for_threads <= budget.wake_at
        )
        if is_low and not self.wakeup.is_set():
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
        self.keep_plans()
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
        ended: list[tuple[Holding, Settlement, Settled]] = []
        refused: Outcomes = []
        for (holding, settlement), answer in zip(group, answers, strict=True):
            if not isinstance(answer, Exception):
                ended.append((holding, settlement, answer))
            elif again:
                # The database refuses the data of this outcome: fail the job with an error that can be stored.
                refused.append((holding, settle.nack(holding.job, f"outcome cannot be stored: {answer}")))
            else:
                # Only the class of the error, whose message may contain the data that was refused.
                details = (holding.job.id, holding.job.task, type(answer).__name__)
                logger.error(
                    "outcome rejected by the database, left to the reaper job=%s task=%s exception=%s", *details
                )
                ended.append((holding, settlement, Settled(Outcome.LOST)))
        self._finish(ended)
        if refused:
            self._settle(refused, again=False)

    def _finish(self, ended: list[tuple[Holding, Settlement, Settled]]) -> None:
        """Drop, log and announce jobs whose outcomes have committed; keep those whose rows were locked."""
        locked = [(holding, settlement) for holding, settlement, answer in ended if answer.outcome is Outcome.LOCKED]
        if locked:
            self.locked += locked
            self.try_locked_at = time.monotonic() + TRY_LOCKED_AGAIN
            ended = [item for item in ended if item[2].outcome is not Outcome.LOCKED]
        self._hand_on(ended)
        # One that is not held any more was given back while it ran, and has ended after all.
        dropped = set(self.in_hand.drop([holding for holding, _, _ in ended]))
        ended = [item for item in ended if item[0] in dropped]
        lines = [(h.job, h.job.attempt, settlement, answer, h.seconds, h.error) for h, settlement, answer in ended]
        for step in (partial(outcome_log.write_all, lines), partial(self._announce, ended), self.settled):
            try:
                step()
            except Exception:
                logger.exception("failed after settling jobs=%d", len(ended))

    def _hand_on(self, ended: list[tuple[Holding, Settlement, Settled]]) -> None:
        """Admit the next jobs of the limit keys whose permits came back. If that fails, a supervisor does it."""
        keys = {settlement.limit_key for _, settlement, _ in ended} - {None}
        if not keys:
            return
        try:
            with self.outages.watching(f"admitting jobs of {len(keys)} keys"):
                if admit.hand_on(keys):
                    self.wakeup.set()
        except Exception as error:
            self.outages.failed(f"admitting jobs of {len(keys)} keys", error)

    def _announce(self, ended: list[tuple[Holding, Settlement, Settled]]) -> None:
        """Send the signals of these jobs, in a thread of the pool if that calls code of the project."""
        announced: dict[tuple[str, Outcome], bool] = {}
        for holding, settlement, answer in ended:
            job, error = holding.job, holding.error
            holding.error = None  # its traceback refers to this holding
            kind = (job.task, answer.outcome)
            if kind not in announced:
                announced[kind] = announce.has_receivers(*kind)
            if not announced[kind]:
                continue
            announcement = partial(announce.settled, job, settlement, answer, error)
            try:
                if announce.calls_the_project(*kind):
                    self.call(announcement)
                else:
                    announcement()
            except Exception:
                logger.exception("announcing an outcome failed job=%s", job.id)

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
