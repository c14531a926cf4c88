"""Renews the leases of all jobs listed in the shared memory, and passes on lost leases and cancel requests.

It reads the shared memory and does not need the processes that run the jobs: the job of a task that holds the
interpreter for a minute keeps its lease.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from django.db import reset_queries

from djqueue.core.records import Renew, Renewed
from djqueue.lifecycle import lease
from djqueue.worker.held_jobs import Claim, Entry, HeldJobs
from djqueue.worker.loops import Turns
from djqueue.worker.outages import Outages
from djqueue.worker.threads import Fatal, VitalThread

# Short enough for cancel requests to reach a running task within a second.
INTERVAL = 0.4
SHORTEST = 0.05

# Called with the number of a process, and which of its jobs should be cancelled and have lost their leases.
UpdateCallback = Callable[[int, list[Claim], list[Claim]], None]


class Leases:
    """A thread that renews each lease after a third of its time, and looks for cancel requests in every turn.

    It looks at a job that it has seen in the turn before: most jobs have ended by then.
    """

    def __init__(
        self, held_jobs: Callable[[], Iterable[HeldJobs]], update_jobs: UpdateCallback, outages: Outages, fatal: Fatal
    ) -> None:
        self.held_jobs = held_jobs
        self.update_jobs = update_jobs
        self.outages = outages
        self.renewed_at: dict[Claim, float] = {}  # monotonic
        self.progress: dict[Claim, str] = {}  # not yet written
        self.turns = Turns()
        self.stopping = threading.Event()
        self.thread = VitalThread(self._run, "djqueue-leases", fatal)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join(1)

    def _run(self) -> None:
        wait = INTERVAL
        while not self.stopping.wait(wait):
            wait = self._turn()
            reset_queries()

    def _turn(self) -> float:
        """Renew what is due; return the seconds until the next turn."""
        held = [(held_jobs.number, entry) for held_jobs in self.held_jobs() for entry in held_jobs.read()]
        if not held:
            self.renewed_at.clear()
            self.progress.clear()
            self.turns.good(rest=INTERVAL)
            return INTERVAL
        has_new = any(entry.claim not in self.renewed_at for _, entry in held)
        try:
            self._renew(held)
            self.turns.good(rest=INTERVAL)
        except Exception as error:
            self.outages.failed(f"renewing {len(held)} leases", error)
        # Jobs that it has seen for the first time are looked at soon, so that a cancel request still takes no second.
        interval = INTERVAL / 2 if has_new else INTERVAL
        return max(SHORTEST, min(interval, min(entry.lease for _, entry in held) / 3))

    def _renew(self, held: list[tuple[int, Entry]]) -> None:
        now = time.monotonic()
        known = self.renewed_at
        self.renewed_at = {entry.claim: known.get(entry.claim, now) for _, entry in held}
        progress, self.progress = self.progress, {}
        due = {entry.claim for _, entry in held if entry.claim in progress or self._is_due(entry, now)}
        renewals = [_renewal(entry, progress.get(entry.claim)) for _, entry in held if entry.claim in due]
        others = [entry.claim for _, entry in held if entry.claim in known and entry.claim not in due]
        try:
            with self.outages.watching(f"renewing {len(renewals)} leases"):
                answers = lease.renew_many(renewals) | lease.look(others)
        except Exception:
            self.progress = progress | self.progress
            raise
        for _, entry in held:
            if entry.claim in due and answers[entry.claim] is not None:
                self.renewed_at[entry.claim] = now
        self._pass_on(held, answers)

    def _is_due(self, entry: Entry, now: float) -> bool:
        return now - self.renewed_at[entry.claim] >= entry.lease / 3

    def _pass_on(self, held: list[tuple[int, Entry]], answers: dict[Claim, Renewed | None]) -> None:
        """Inform each process about its jobs; a locked row is read again in the next turn."""
        for number in {number for number, _ in held}:
            claims = [entry.claim for owner, entry in held if owner == number]
            found = [(claim, answer) for claim in claims if (answer := answers.get(claim)) is not None]
            cancelled = [claim for claim, answer in found if answer.expires_at and answer.cancel_requested]
            lost = [claim for claim, answer in found if not answer.expires_at]
            if cancelled or lost:
                self.update_jobs(number, cancelled, lost)


def _renewal(entry: Entry, progress: str | None) -> Renew:
    job, token = entry.claim
    return Renew(id=job, token=token, lease=entry.lease, progress=progress)
