"""The maintenance that every worker does, leaderless: reap, promote, sweep."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from django.db import DatabaseError, InterfaceError, connections

from djqueue import maintenance
from djqueue.conf import config

logger = logging.getLogger("djqueue")

SWEEP_INTERVAL = 60.0


@dataclass
class Duty:
    name: str
    work: Callable[[], int]
    interval: float
    due_at: float = 0.0


class Duties:
    """A thread that does each duty in its time, for ever, whatever the database does."""

    def __init__(self) -> None:
        settings = config()
        self.duties = [
            Duty("reap", maintenance.reap, settings.reaper_interval),
            Duty("promote", maintenance.promote, settings.scheduler_interval),
            Duty("sweep", _sweep, SWEEP_INTERVAL),
        ]
        self.bell = threading.Event()
        self.stopping = False
        self.thread = threading.Thread(target=self._run, name="djqueue-duties", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.stopping = True
        self.bell.set()
        self.thread.join()

    def _run(self) -> None:
        try:
            while not self.stopping:
                for duty in self.duties:
                    if time.monotonic() >= duty.due_at and not self.stopping:
                        self._do(duty)
                self.bell.wait(max(0.0, min(duty.due_at for duty in self.duties) - time.monotonic()))
                self.bell.clear()
        finally:
            connections.close_all()

    def _do(self, duty: Duty) -> None:
        try:
            duty.work()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("duty %s failed, trying again error=%s", duty.name, error)
            connections.close_all()
        duty.due_at = time.monotonic() + duty.interval * random.uniform(0.9, 1.1)


def _sweep() -> int:
    return maintenance.sweep_done() + maintenance.sweep_dead() + maintenance.sweep_kv() + maintenance.roll_up()
