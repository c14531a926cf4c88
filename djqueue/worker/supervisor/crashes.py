"""Settles the jobs that a process held when it exited, as soon as the database takes it."""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from djqueue.core.log import logger
from djqueue.lifecycle.crash import Left, recover
from djqueue.worker.held_jobs import ENDED, Entry
from djqueue.worker.lost_claims import INTERVAL, LostClaims
from djqueue.worker.outages import Outages, pause
from djqueue.worker.threads import Fatal, VitalThread

from .child import Child

# Rows that another transaction has locked are tried again after this time.
TRY_LOCKED_AGAIN = 0.1


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """The jobs that a process held when it exited."""

    jobs: Sequence[Left]
    reason: str
    crashed: bool = False
    claim: UUID | None = None  # the token of a claim that was under way


def left_behind(child: Child, entries: Sequence[Entry], code: int) -> LeftBehind:
    """Return what to settle: ended jobs by their outcome, running jobs as blamed for the exit, the others released.

    A process that drains has no running job when it exits, so any exit with a running job is a crash. If the supervisor
    killed the process, the jobs for which it was killed are blamed, and no others.
    """
    running = frozenset(entry.claim[0] for entry in entries if entry.running)
    crashed = bool(running) and not child.killed_for
    exit_text = f"killed by signal {-code}" if code < 0 else f"exited with code {code}"
    reason = child.killed_for or f"worker process {exit_text}"
    blamed = running if crashed else child.blamed
    jobs = [_left(child, entry, blamed) for entry in entries]
    return LeftBehind(jobs, reason, crashed, child.held_jobs.unfinished_claim())


def _left(child: Child, entry: Entry, blamed: frozenset[UUID]) -> Left:
    outcome = None
    if entry.state == ENDED:
        outcome, result_lost = child.held_jobs.outcome(entry)
        if result_lost:
            logger.warning("result lost with its process job=%s", entry.claim[0])
    return Left(*entry.claim, blamed=outcome is None and entry.claim[0] in blamed, outcome=outcome)


class CrashRecovery:
    """One thread, so that the supervisor can continue while the database is unavailable."""

    def __init__(self, outages: Outages, fatal: Fatal) -> None:
        self.outages = outages
        self.lost_claims = LostClaims(outages)
        self.inbox: queue.SimpleQueue[LeftBehind | None] = queue.SimpleQueue()
        self.thread = VitalThread(self._run, "djqueue-crash-recovery", fatal)

    def start(self) -> None:
        self.thread.start()

    def add(self, left_behind: LeftBehind) -> None:
        if left_behind.jobs or left_behind.claim:
            self.inbox.put(left_behind)

    def close(self, timeout: float) -> None:
        """Settle what is left; jobs for which the time is too short are reaped when their leases expire."""
        self.inbox.put(None)
        self.thread.join(timeout)

    def _run(self) -> None:
        closing = False
        while not (closing and self.inbox.empty()):
            try:
                left_behind = self.inbox.get(timeout=INTERVAL if self.lost_claims.tokens else None)
            except queue.Empty:
                self._release_unanswered()
                continue
            if left_behind is None:
                closing = True
                continue
            locked = self._settle(left_behind)
            if left_behind.claim:
                self.lost_claims.add(left_behind.claim, [job.id for job in left_behind.jobs])
            self._release_unanswered()
            if locked:
                # At the end of the queue: the others must not wait for locked rows.
                self.inbox.put(replace(left_behind, jobs=locked, claim=None))
                time.sleep(TRY_LOCKED_AGAIN)

    def _release_unanswered(self) -> None:
        try:
            self.lost_claims.release()
        except Exception as error:
            self.outages.failed("releasing unanswered claims", error)

    def _settle(self, left_behind: LeftBehind) -> list[Left]:
        """Settle what can be settled now, however long the database is away; return the jobs with locked rows."""
        failures = 0
        what = f"recovering {len(left_behind.jobs)} jobs"
        while True:
            try:
                with self.outages.watching(what):
                    locked = recover(left_behind.jobs, left_behind.reason, crashed=left_behind.crashed)
            except Exception as error:
                failures += 1
                self.outages.failed(what, error)
                time.sleep(pause(failures))
                continue
            settled = [job for job in left_behind.jobs if job not in locked]
            blamed = sum(job.blamed for job in settled)
            ended = sum(job.outcome is not None for job in settled)
            if settled:
                counts = (len(settled), blamed, ended, left_behind.reason)
                logger.info("recovered jobs=%d blamed=%d ended=%d reason=%r", *counts)
            return locked
