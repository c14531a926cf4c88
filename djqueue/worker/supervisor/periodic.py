"""Work that the supervisor repeats, on one thread."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from django.db import reset_queries

from djqueue.worker.loops import Turns
from djqueue.worker.outages import Outages
from djqueue.worker.threads import Fatal, VitalThread


@dataclass
class Periodic:
    """A function to call at an interval."""

    name: str
    work: Callable[[], object]
    interval: float
    due_at: float = 0.0
    turns: Turns = field(default_factory=Turns)


class PeriodicThread:
    """One thread that calls each function when it is due, and continues after errors."""

    def __init__(self, works: Sequence[Periodic], outages: Outages, fatal: Fatal) -> None:
        self.works = works
        self.outages = outages
        self.wakeup = threading.Event()
        self.stopping = False
        self.thread = VitalThread(self._run, "djqueue-periodic", fatal)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.stopping = True
        self.wakeup.set()
        self.thread.join(1)

    def run_now(self, name: str) -> None:
        """Run the work of that name now."""
        for periodic in self.works:
            if periodic.name == name:
                periodic.due_at = 0.0
        self.wakeup.set()

    def _run(self) -> None:
        while not self.stopping:
            for periodic in self.works:
                if time.monotonic() >= periodic.due_at and not self.stopping:
                    self._run_one(periodic)
            self.wakeup.wait(max(0.0, min(periodic.due_at for periodic in self.works) - time.monotonic()))
            self.wakeup.clear()

    def _run_one(self, periodic: Periodic) -> None:
        # Before the work: another thread may call run_now() meanwhile.
        periodic.due_at = time.monotonic() + periodic.interval * random.uniform(0.9, 1.1)
        try:
            with self.outages.watching(periodic.name):
                periodic.work()
            periodic.turns.good(rest=max(0.0, periodic.due_at - time.monotonic()))
        except Exception as error:
            self.outages.failed(periodic.name, error)
        reset_queries()
