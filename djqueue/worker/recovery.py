"""Settles what dead processes held, as soon as the database takes it."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connections

from djqueue.lifecycle.recover import recover

from .board import Entry
from .pulse import Pulse, pause

logger = logging.getLogger("djqueue")


@dataclass(frozen=True, slots=True)
class Estate:
    """What a process left behind."""

    entries: Sequence[Entry]
    blamed: frozenset[UUID]
    reason: str
    crashed: bool


class Recovery:
    """One thread, so that the supervisor can go on watching while the database is away."""

    def __init__(self, pulse: Pulse) -> None:
        self.pulse = pulse
        self.inbox: queue.SimpleQueue[Estate | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, name="djqueue-recovery", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def add(self, estate: Estate) -> None:
        if estate.entries:
            self.inbox.put(estate)

    def close(self, timeout: float) -> None:
        """Settle what is left; what takes longer comes back when its leases end."""
        self.inbox.put(None)
        self.thread.join(timeout)

    def _run(self) -> None:
        try:
            while (estate := self.inbox.get()) is not None:
                self._settle(estate)
        finally:
            connections.close_all()

    def _settle(self, estate: Estate) -> None:
        failures = 0
        claims = [entry.claim for entry in estate.entries]
        while True:
            try:
                settled = recover(claims, estate.blamed, estate.reason, crashed=estate.crashed)
                logger.info("recovered jobs=%d blamed=%d reason=%r", settled, len(estate.blamed), estate.reason)
                return
            except Exception as error:
                failures += 1
                self.pulse.failed(f"recovering {len(claims)} jobs", error)
                time.sleep(pause(failures))
