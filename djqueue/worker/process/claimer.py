"""Claims jobs: as many as can start soon, from the queues that have some, whenever something may have changed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from uuid import uuid4

from django.db import reset_queries

from djqueue import maintenance
from djqueue.conf import config
from djqueue.core.identity import identity
from djqueue.core.log import logger
from djqueue.lifecycle import unknown_tasks
from djqueue.lifecycle.claim import ClaimedJob, claim
from djqueue.states import Verdict
from djqueue.waiting.listener import listener
from djqueue.waiting.wakeup_sources import Listen
from djqueue.worker.loops import Turns
from djqueue.worker.lost_claims import LostClaims
from djqueue.worker.options import Options
from djqueue.worker.outages import Outages, overdue, pause

from . import executor
from .budget import STUCK_AFTER, Budget
from .claim_marks import ClaimMarks
from .completer import Completer
from .in_hand import UNKNOWN, Holding, InHand, Kind
from .pool import Pool
from .queues import LOOK_AGAIN, ClaimableQueues

# How long to wait for a wake-up while the listener works; the listener itself polls every few seconds.
LONG_WAIT = 60.0
SHORTEST_STAGGER, LONGEST_STAGGER = 0.002, 0.02
# More unknown tasks than that in one claim: there will be others behind them.
FEW = 10
# An idle process lets its threads begin before it prepares the next claim, which would hold the interpreter meanwhile.
HEAD_START = 0.0001
# A draining process gives up a claim that gets no response within this time.
DRAIN_PATIENCE = 2.0


class Claimer:
    """The thread that calls `run` claims; `wakeup` makes it check again what it can claim."""

    def __init__(
        self,
        options: Options,
        in_hand: InHand,
        budget: Budget,
        pool: Pool,
        completer: Completer,
        wakeup: threading.Event,
        outages: Outages,
    ) -> None:
        self.options = options
        self.in_hand = in_hand
        self.budget = budget
        self.pool = pool
        self.completer = completer
        self.wakeup = wakeup
        self.outages = outages
        self.claim_marks = ClaimMarks()
        self.queues = ClaimableQueues(options, self.claim_marks)
        self.lost_claims = LostClaims(outages)
        self.turns = Turns()
        self.quiet = False  # set by other threads: claim nothing, but tend the jobs that are held
        self.stopping = False
        self.woken = False
        self.stagger = 0.0  # how long an idle worker may wait before it reacts to a wake-up
        self.hand_over: Callable[[ClaimedJob], None] | None = None  # takes suspects
        self.alone: Holding | None = None  # a suspect, where it cannot be handed over
        self.alone_submitted = False

    def stop(self) -> None:
        """Claim no more."""
        self.stopping = True
        self.wakeup.set()

    def run(self) -> None:
        """Claim until stopped, or until a burst is over."""
        with listener().watching(None, self.wakeup.set) as self.watch:
            failures = 0
            while not self.stopping:
                self.wakeup.clear()
                self._learn_queues(self._queues_of_wakeups())
                reset_queries()  # with DEBUG, Django would keep the texts of thousands of them
                try:
                    self.lost_claims.release()
                    more = self._tend_alone() if self.alone else not self.quiet and self._claim()
                    if self.budget.threads_are_stuck:
                        self.completer.give_back(self.pool.threads.take_back())
                    if self.budget.loop_is_stuck:
                        self.completer.give_back(self.pool.loop.take_back())
                    if not more and self.options.burst and self._is_idle():
                        return
                    failures = 0
                except Exception as error:
                    failures += 1
                    self.outages.failed("claiming", error)
                    if not self.stopping:
                        self.wakeup.wait(pause(failures))
                    continue
                self.turns.good()
                if not more and not self.stopping:  # a stop() before the last clear() would not end the wait
                    self.turns.wait(self.wakeup, self._longest_wait())

    def hold(self, jobs: Sequence[ClaimedJob], started: int) -> list[Holding]:
        """Hold claimed jobs, of which the first ones are marked as started."""
        kinds: dict[tuple[str, str], Kind] = {}
        holdings = []
        for place, job in enumerate(jobs):
            key = (job.task, job.queue)
            if (kind := kinds.get(key, UNKNOWN)) is UNKNOWN and (kind := executor.kind_of(job)) is not UNKNOWN:
                kinds[key] = kind
            holdings.append(Holding(job, kind, marked=place < started))
        self.in_hand.take(holdings)
        return holdings

    def take_back_alone(self) -> list[Holding]:
        """Return the job that was to run alone, if it has not been submitted."""
        return [self.alone] if self.alone and not self.alone_submitted else []

    def _longest_wait(self) -> float:
        wait = LONG_WAIT if listener().is_well else config().poll_interval
        # The wake-up may have been for a queue that was not among those that were found a moment ago.
        wait = wait if self.queues.is_fresh or self.quiet else LOOK_AGAIN
        return min(wait, STUCK_AFTER) if self.budget.has_waiting else wait

    def _queues_of_wakeups(self) -> set[str | None]:
        """Return the queues of which the listener was notified; an idle worker may react a bit later."""
        queues = self.watch.take_queues()
        self.woken = bool(queues)
        if queues and self.stagger and not self.in_hand.held and not self.stopping:
            time.sleep(random.uniform(0, self.stagger))
            self.wakeup.clear()
            queues |= self.watch.take_queues()
        return queues

    def _learn_queues(self, woken: set[str | None]) -> None:
        self.queues.may_have_jobs(woken)
        if woken and not self.stagger:  # those that often come too late look first, which costs less than a claim
            self.queues.claim_from(woken)

    def _claim(self) -> bool:
        """Claim once; return whether there may be more to claim at once."""
        with self.outages.watching("claiming", self._patience):
            wants = self._wants()
            if not wants:
                self._learn_stagger(False)
                return False
            start, marks, token = self.budget.start_at_once(wants), self.claim_marks.marks(wants), uuid4()
            asked_at = time.monotonic()
            # If this process is killed before it holds all jobs of the claim, its supervisor gives back the rest.
            self.in_hand.held_jobs.start_claim(token)
            try:
                limit = self.budget.total_room
                jobs = claim(wants, limit=limit, begin=start, worker=identity(), marks=marks, token=token)
            except Exception:
                self.lost_claims.add(token)
                raise
            self.claim_marks.learn(wants, marks, jobs, time.monotonic() - asked_at)
        self.queues.claimed()
        self._learn_stagger(bool(jobs))
        was_idle = not self.in_hand.held
        holdings = self.hold(jobs, started=start)
        self.in_hand.held_jobs.finish_claim()
        unknown = [holding for holding in holdings if holding.kind is UNKNOWN]
        self._submit([holding for holding in holdings if holding.kind is not UNKNOWN] if unknown else holdings)
        self._put_back(unknown)
        if was_idle and jobs:
            time.sleep(HEAD_START)
        if len(jobs) < sum(wants.values()):
            self.queues.look_again()
        return bool(jobs) or not (self.queues.is_fresh or self.claim_marks.queues())

    def _wants(self) -> dict[str, int]:
        """Return how many jobs of which queues to claim now."""
        threads, loop = self.budget.room()
        if max(threads, loop) <= 0:
            return {}
        wants = self.budget.wants(self.queues.in_order(), threads, loop)
        if not wants and not self.queues.is_fresh and threads > 0:  # a queue that was empty may have something by now
            self.queues.look_again()
            wants = self.budget.wants(self.queues.in_order(), threads, loop)
        return wants

    def _learn_stagger(self, found: bool) -> None:
        """Learn how fast to react to the next wake-up.

        One NOTIFY wakes every idle worker. Those that found nothing react later next time, and then see with one
        query that the job is taken; the one that got the last job reacts immediately.
        """
        if found:
            self.stagger = 0.0
        elif self.woken and listener().kind == Listen.kind:
            self.stagger = min(LONGEST_STAGGER, max(SHORTEST_STAGGER, 2 * self.stagger))
        self.woken = False

    def _patience(self) -> float:
        """Return how long to wait for the response to a claim: not long in a draining process."""
        return DRAIN_PATIENCE if self.stopping else overdue()

    def _is_idle(self) -> bool:
        """Return whether a burst is over: no job is held, and none is due, or it is quiet and will claim none."""
        if self.in_hand.counts.total:
            return False
        if self.quiet:
            return True
        self.queues.look_again()
        with self.outages.watching("looking for jobs"):
            return not maintenance.promote() and not maintenance.admit() and not self._wants()

    # Jobs that do not simply run

    def _submit(self, holdings: list[Holding]) -> None:
        """Run jobs, except suspects, which are handed over or run alone."""
        suspects = [holding for holding in holdings if holding.job.row.crashes]
        if suspects and self.hand_over is None:
            self._keep_one_alone(holdings)
            return
        for holding in suspects:
            self._hand_over(holding)
        self.pool.submit([holding for holding in holdings if not holding.job.row.crashes] if suspects else holdings)

    def _hand_over(self, holding: Holding) -> None:
        """Hand a suspect over to the supervisor, which runs it alone in the quarantine process."""
        assert self.hand_over is not None
        _log_suspect(holding.job)
        self.hand_over(holding.job)
        # The supervisor holds it now: it reads what was sent even if this process dies.
        self.in_hand.drop([holding])

    def _put_back(self, unknown: list[Holding]) -> None:
        """Put back jobs whose tasks are not registered; if there are many, also those behind them in the queue."""
        waiting = []
        for holding in unknown:
            settlement = unknown_tasks.settlement(holding.job)
            waiting += [holding.job] if settlement.verdict is Verdict.SNOOZE else []
            self.completer.report(holding, settlement)
        if len(waiting) > FEW:
            for queue in {job.queue for job in waiting}:
                tasks = {job.task for job in waiting if job.queue == queue}
                with self.outages.watching("putting back jobs of unknown tasks"):
                    put = unknown_tasks.put_back(queue, tasks)
                if put:
                    details = (queue, sorted(tasks), put)
                    logger.info("put back without a claim queue=%s tasks=%s jobs=%d", *details)

    def _keep_one_alone(self, holdings: list[Holding]) -> None:
        """Keep the first suspect, and give back all other jobs that have not started."""
        self.alone = next(holding for holding in holdings if holding.job.row.crashes)
        _log_suspect(self.alone.job)
        self.alone_submitted = False
        others = [*holdings, *self.pool.take_back()]
        self.completer.give_back(holding for holding in others if holding is not self.alone)

    def _tend_alone(self) -> bool:
        """Start the job that must run alone when all others have ended; return whether it has ended itself."""
        assert self.alone is not None
        if self.alone not in self.in_hand.held:
            self.alone = None
            return True
        if not self.alone_submitted and len(self.in_hand.held) == 1:
            self.alone_submitted = True
            self.pool.submit([self.alone])
        return False


def _log_suspect(job: ClaimedJob) -> None:
    details = (job.id, job.task, job.queue, job.attempt, job.max_attempts, job.row.crashes)
    logger.warning("quarantined, runs alone job=%s task=%s queue=%s attempt=%d/%d crashes=%d", *details)
