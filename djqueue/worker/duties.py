"""What every worker does for the queue as a whole, leaderless: reap, sweep, and tell that it lives."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db import connections, reset_queries

from djqueue import maintenance
from djqueue.conf import config

from .pulse import Pulse

SWEEP_INTERVAL = 60.0


@dataclass
class Duty:
    name: str
    work: Callable[[], object]
    interval: float
    due_at: float = 0.0


class Duties:
    """A thread that does each duty in its time, for ever, whatever the database does."""

    def __init__(self, duties: Sequence[Duty], pulse: Pulse) -> None:
        self.duties = duties
        self.pulse = pulse
        self.bell = threading.Event()
        self.stopping = False
        self.thread = threading.Thread(target=self._run, name="djqueue-duties", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.stopping = True
        self.bell.set()
        self.thread.join(1)

    def hurry(self, name: str) -> None:
        """Do a duty now."""
        for duty in self.duties:
            if duty.name == name:
                duty.due_at = 0.0
        self.bell.set()

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
        # Before the work: somebody may hurry us meanwhile.
        duty.due_at = time.monotonic() + duty.interval * random.uniform(0.9, 1.1)
        try:
            duty.work()
        except Exception as error:
            self.pulse.failed(duty.name, error)
        reset_queries()


def maintenance_duties(pulse: Pulse) -> list[Duty]:
    """The reaper and the sweeper."""

    def reap() -> None:
        # After an outage every lease looks expired: the living renew theirs before anybody takes them.
        if pulse.steady_for() >= config().lease / 2:
            maintenance.reap()

    return [Duty("reaping", reap, config().reaper_interval), Duty("sweeping", _sweep, SWEEP_INTERVAL)]


def _sweep() -> None:
    maintenance.sweep_done()
    maintenance.sweep_dead()
    maintenance.sweep_kv()
    maintenance.roll_up()
