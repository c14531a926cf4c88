"""`--processes 0`: a worker and its upkeep as threads of one process, for debugging and for systems without fork."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from django.db import connections

from djqueue.conf import config
from djqueue.identity import identity

from .board import Claim
from .heartbeats import Life, resident_memory
from .options import Options
from .process import Worker
from .pulse import AWAY
from .upkeep import Upkeep

# How often progress is taken from the tasks and memory is looked at.
INTERVAL = 0.5


class SingleProcess:
    """The thread that calls `run` claims."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.worker = Worker(options)
        self.life = Life(identity(), os.getpid())
        self.upkeep = Upkeep(options, lambda: [self.worker.board], self._lives, self._tell)
        self.over = threading.Event()
        self.signalled = False

    def run(self) -> int:
        """Work until told to end; gives the exit code."""
        self.upkeep.start()
        threading.Thread(target=self._look_after, name="djqueue-look-after", daemon=True).start()
        try:
            return self.worker.run()
        finally:
            self.over.set()
            self.upkeep.stop()
            self._say_goodbye()

    def stop(self, number: int = signal.SIGTERM, frame: FrameType | None = None) -> None:
        """Drain; called a second time, give up what runs."""
        # A handler interrupts this very thread, perhaps with a lock in hand: another one does what takes locks.
        force, self.signalled = self.signalled, True
        grace = config().shutdown_grace
        act = self.worker.force if force else lambda: self.worker.drain(signal.Signals(number).name, grace)
        threading.Thread(target=act, daemon=True).start()

    def _tell(self, number: int, cancelled: list[Claim], lost: list[Claim]) -> None:
        self.worker.hear(cancelled, lost)

    def _lives(self) -> list[Life]:
        worker = self.worker
        self.life.running, self.life.finished = worker.budget.running, worker.budget.finished
        self.life.memory, self.life.draining = resident_memory(), bool(worker.draining)
        self.life.stopped = self.over.is_set()
        return [self.life]

    def _look_after(self) -> None:
        while not self.over.wait(INTERVAL):
            self.upkeep.leases.progress.update(self.worker.take_progress())
            if self.options.max_memory and resident_memory() > self.options.max_memory:
                self.worker.drain("it has passed --max-memory")

    def _say_goodbye(self) -> None:
        try:
            self.upkeep.beat()
        except AWAY:
            pass  # its heartbeat stops, which says the same
        connections.close_all()
