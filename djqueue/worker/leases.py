"""Keeps the leases of all that the boards show, in one statement, and tells what was lost and what should be cancelled.

It reads memory and needs nothing of the processes that run the jobs: a task that holds the interpreter for a minute
keeps its lease.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.db import connections, reset_queries

from djqueue.lifecycle import lease
from djqueue.records import Renew, Renewal

from .board import Board, Claim, Entry
from .pulse import Pulse

# Cancel requests reach a running task within a second.
INTERVAL = 0.4
SHORTEST = 0.05

Tell = Callable[[int, list[Claim], list[Claim]], None]  # board's number, cancelled claims, lost claims


@dataclass
class Kept:
    """What this side knows of a claim."""

    renewed_at: float
    marked: bool = False  # its row says that it was started


class Leases:
    """A thread that renews each lease in its last two thirds, and looks for cancel requests all the time."""

    def __init__(self, boards: Callable[[], Iterable[Board]], tell: Tell, pulse: Pulse) -> None:
        self.boards = boards
        self.tell = tell
        self.pulse = pulse
        self.kept: dict[Claim, Kept] = {}
        self.progress: dict[Claim, str] = {}  # not yet written
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="djqueue-leases", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join(1)

    def _run(self) -> None:
        wait = INTERVAL
        try:
            while not self.stopping.wait(wait):
                wait = self._turn()
                reset_queries()
        finally:
            connections.close_all()

    def _turn(self) -> float:
        """Look after everything once; gives the time until the next turn."""
        shown = [(board.number, entry) for board in self.boards() for entry in board.read()]
        if not shown:
            self.kept.clear()
            self.progress.clear()
            return INTERVAL
        try:
            self._keep(shown)
        except Exception as error:
            self.pulse.failed(f"renewing {len(shown)} leases", error)
        return max(SHORTEST, min(INTERVAL, min(entry.lease for _, entry in shown) / 3))

    def _keep(self, shown: list[tuple[int, Entry]]) -> None:
        now = time.monotonic()
        self.kept = {entry.claim: self.kept.get(entry.claim) or Kept(now) for _, entry in shown}
        progress, self.progress = self.progress, {}
        due = {entry.claim for _, entry in shown if entry.claim in progress or self._is_due(entry, now)}
        renewals = [_renewal(entry, progress.get(entry.claim)) for _, entry in shown if entry.claim in due]
        others = [entry.claim for _, entry in shown if entry.claim not in due]
        try:
            answers = lease.renew_many(renewals) | lease.look(others)
        except Exception:
            self.progress = progress | self.progress
            raise
        for _, entry in shown:
            if entry.claim in due and answers[entry.claim] is not None:
                self.kept[entry.claim] = Kept(now, marked=entry.running)
        self._pass_on(shown, answers)

    def _is_due(self, entry: Entry, now: float) -> bool:
        kept = self.kept[entry.claim]
        started = entry.running and not kept.marked and now - kept.renewed_at > INTERVAL / 2
        return started or now - kept.renewed_at >= entry.lease / 3

    def _pass_on(self, shown: list[tuple[int, Entry]], answers: dict[Claim, Renewal | None]) -> None:
        """Tell each process of its jobs; one that is locked by somebody is asked for again in the next turn."""
        for number in {number for number, _ in shown}:
            claims = [entry.claim for owner, entry in shown if owner == number]
            found = [(claim, answer) for claim in claims if (answer := answers.get(claim)) is not None]
            cancelled = [claim for claim, answer in found if answer.expires_at and answer.cancel_requested]
            lost = [claim for claim, answer in found if not answer.expires_at]
            if cancelled or lost:
                self.tell(number, cancelled, lost)


def _renewal(entry: Entry, progress: str | None) -> Renew:
    job, token = entry.claim
    return Renew(id=job, token=token, lease=entry.lease, started=entry.running or None, progress=progress)
