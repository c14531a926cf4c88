"""`--processes 0`: a worker and the supervisor's loops as threads of one process, for debugging or without fork."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from djqueue.conf import config
from djqueue.core.identity import identity
from djqueue.states import WorkerRequest
from djqueue.worker.process.worker import Worker
from djqueue.worker.supervisor.background import Background
from djqueue.worker.supervisor.heartbeats import ProcessStatus

from .held_jobs import Claim
from .options import Options
from .os_process import resident_memory
from .outages import AWAY
from .threads import VitalThread

# Seconds between two checks of progress and memory.
INTERVAL = 0.5


class SingleProcess:
    """Works in threads of its own, so that the connections of the thread that calls `run` are left alone."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.failed = False
        self.worker = Worker(options, fatal=self._lost_thread)
        self.status = ProcessStatus(identity(), os.getpid())
        self.background = Background(
            options,
            lambda: [self.worker.in_hand.held_jobs],
            self._statuses,
            self._update_jobs,
            self._obey,
            self._lost_thread,
        )
        self.over = threading.Event()
        self.signalled = False

    def run(self) -> int:
        """Work until stopped; return the exit code."""
        claimer = VitalThread(self._work, "djqueue-claimer", self._lost_thread)
        claimer.start()
        # Not one long join(): if another thread receives a signal, this one handles it only when it wakes up.
        while claimer.is_alive():
            claimer.join(INTERVAL)
        return int(self.failed or self.worker.forced)

    def _work(self) -> None:
        self.background.start()
        threading.Thread(target=self._check, name="djqueue-checks", daemon=True).start()
        try:
            self.worker.run()
        finally:
            self.over.set()
            self.background.stop()
            self._beat_once_more()

    def stop(self, number: int = signal.SIGTERM, frame: FrameType | None = None) -> None:
        """Drain; when called a second time, release running jobs immediately."""
        # A signal handler interrupts this very thread, which may hold a lock: another thread does what takes locks.
        force, self.signalled = self.signalled, True
        grace = config().shutdown_grace
        act = self.worker.force if force else lambda: self.worker.drain(signal.Signals(number).name, grace)
        threading.Thread(target=act, daemon=True).start()

    def _obey(self, what: WorkerRequest) -> None:
        """Obey the request of an operator, in the thread that has read it."""
        if what is WorkerRequest.DRAIN:
            self.worker.drain("requested by an operator", config().shutdown_grace)
        else:
            self.worker.be_quiet(what is WorkerRequest.QUIET)
        self.background.beat_soon()

    def _lost_thread(self, name: str) -> None:
        """Exit with a failure after a thread without which the process cannot work has ended."""
        self.failed = True
        self.worker.drain(f"thread {name} ended unexpectedly", config().shutdown_grace)

    def _update_jobs(self, number: int, cancelled: list[Claim], lost: list[Claim]) -> None:
        self.worker.update(cancelled, lost)

    def _statuses(self) -> list[ProcessStatus]:
        worker = self.worker
        counts = worker.in_hand.counts
        self.status.running, self.status.finished = counts.running, counts.finished
        self.status.memory, self.status.loops = resident_memory(), worker.loops()
        self.status.quiet, self.status.draining = worker.quiet, bool(worker.draining)
        self.status.stopped = self.over.is_set()
        return [self.status]

    def _check(self) -> None:
        while not self.over.wait(INTERVAL):
            self.background.leases.progress.update(self.worker.take_progress())
            if self.options.max_memory and resident_memory() > self.options.max_memory:
                self.worker.drain("--max-memory exceeded")

    def _beat_once_more(self) -> None:
        try:
            self.background.beat()
        except AWAY:
            pass  # its heartbeats stop, which shows the same
