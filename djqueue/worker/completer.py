"""Settles outcomes in groups: what comes in while a statement runs goes into the next one."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

from django.db import connections, reset_queries

from djqueue.current import Holding
from djqueue.lifecycle import settle
from djqueue.records import Settled, Settlement
from djqueue.states import Outcome

from .pulse import Pulse, pause

logger = logging.getLogger("djqueue")

GROUP = 500
# While more is in hand than has come in, a group waits for so long to grow.
LINGER = 0.003

Finished = Callable[[Holding, Settlement, Settled], None]
Outcomes = list[tuple[Holding, Settlement]]


class Completer:
    """One thread; outcomes are kept until the database has taken them, however long it is away."""

    def __init__(self, finished: Finished, pulse: Pulse, in_hand: Callable[[], int]) -> None:
        self.finished = finished
        self.pulse = pulse
        self.in_hand = in_hand
        self.inbox: queue.SimpleQueue[tuple[Holding, Settlement] | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, name="djqueue-completer", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def report(self, holding: Holding, settlement: Settlement) -> None:
        self.inbox.put((holding, settlement))

    def close(self, timeout: float | None = None) -> bool:
        """Flush what is left and end; False when that took longer than the timeout."""
        self.inbox.put(None)
        self.thread.join(timeout)
        return not self.thread.is_alive()

    def _run(self) -> None:
        try:
            while (first := self.inbox.get()) is not None:
                if not self._settle_with(first):
                    return
                reset_queries()
        finally:
            connections.close_all()

    def _settle_with(self, first: tuple[Holding, Settlement]) -> bool:
        """Settle this one and what else has come in; False when that was the last."""
        if self.inbox.qsize() + 1 < min(GROUP, self.in_hand()):
            time.sleep(LINGER)
        group = [first]
        while len(group) < GROUP and not self.inbox.empty():
            item = self.inbox.get()
            if item is None:
                self._settle(group)
                return False
            group.append(item)
        self._settle(group)
        return True

    def _settle(self, group: Outcomes, again: bool = True) -> None:
        answers = self._until_taken([settlement for _, settlement in group])
        refused: Outcomes = []
        for (holding, settlement), answer in zip(group, answers, strict=True):
            if not isinstance(answer, Exception):
                self.finished(holding, settlement, answer)
            elif again:
                # The database refuses this one for its data: it fails, in words that can be stored.
                refused.append((holding, settle.nack(holding.job, f"its outcome cannot be stored: {answer}")))
            else:
                logger.error("outcome refused, left to the reaper job=%s error=%s", holding.job.id, answer)
                self.finished(holding, settlement, Settled(Outcome.LOST))
        if refused:
            self._settle(refused, again=False)

    def _until_taken(self, settlements: list[Settlement]) -> list[Settled | Exception]:
        failures = 0
        while True:
            try:
                return settle.settle_many(settlements)
            except Exception as error:
                failures += 1
                self.pulse.failed(f"settling {len(settlements)} jobs", error)
                time.sleep(pause(failures))
