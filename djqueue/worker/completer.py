"""Settles outcomes in groups: what comes in while a statement runs goes into the next one."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, connections

from djqueue.current import Holding
from djqueue.lifecycle import settle
from djqueue.records import Settled, Settlement

logger = logging.getLogger("djqueue")

GROUP = 200
LONGEST_PAUSE = 5.0

Finished = Callable[[Holding, Settlement, Settled], None]


class Completer:
    """One thread; outcomes are kept until the database has taken them, however long it is away."""

    def __init__(self, finished: Finished) -> None:
        self.finished = finished
        self.waiting: deque[tuple[Holding, Settlement]] = deque()
        self.wakeup = threading.Condition()
        self.closing = False
        self.thread = threading.Thread(target=self._run, name="djqueue-completer", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def report(self, holding: Holding, settlement: Settlement) -> None:
        holding.reported = True
        with self.wakeup:
            self.waiting.append((holding, settlement))
            self.wakeup.notify()

    def close(self, timeout: float | None = None) -> bool:
        """Flush what is left and end; False when that took longer than the timeout."""
        with self.wakeup:
            self.closing = True
            self.wakeup.notify()
        self.thread.join(timeout)
        return not self.thread.is_alive()

    def _run(self) -> None:
        try:
            while group := self._next_group():
                self._settle(group)
        finally:
            connections.close_all()

    def _next_group(self) -> list[tuple[Holding, Settlement]]:
        with self.wakeup:
            self.wakeup.wait_for(lambda: self.waiting or self.closing)
            return [self.waiting.popleft() for _ in range(min(GROUP, len(self.waiting)))]

    def _settle(self, group: list[tuple[Holding, Settlement]]) -> None:
        answers = self._until_taken([settlement for _, settlement in group])
        again = []
        for (holding, settlement), answer in zip(group, answers, strict=True):
            if isinstance(answer, Exception):
                # The database refuses this one for its data: it fails, in words that can be stored.
                again.append((holding, settle.nack(holding.job, f"its outcome cannot be stored: {answer}")))
            else:
                self.finished(holding, settlement, answer)
        if again:
            self._settle(again)

    def _until_taken(self, settlements: list[Settlement]) -> list[Settled | Exception]:
        failures = 0
        while True:
            try:
                return settle.settle_many(settlements)
            except (DatabaseError, InterfaceError) as error:
                failures += 1
                logger.warning("settling %d jobs failed, trying again error=%s", len(settlements), error)
                connections.close_all()
                time.sleep(min(LONGEST_PAUSE, 0.05 * 2 ** min(failures, 8)) * random.uniform(0.5, 1))
