"""How a worker process and its supervisor talk: a socket, and a thread in the worker that serves it."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from djqueue.identity import identity

from .board import Claim
from .heartbeats import resident_memory
from .process import Worker

logger = logging.getLogger("djqueue")

REPORT_INTERVAL = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker process tells of itself."""

    identity: str
    pid: int
    running: int
    finished: int
    memory: int
    draining: bool
    relayed: int  # announcements made since the last report
    progress: dict[Claim, str] = field(default_factory=dict)


class Link:
    """The worker's end."""

    def __init__(self, connection: Connection[Any, Any], worker: Worker) -> None:
        self.connection = connection
        self.worker = worker
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self._serve, name="djqueue-link", daemon=True)

    def start(self) -> None:
        self.worker.on_news = self.report
        self.thread.start()

    def report(self) -> None:
        """Tell the supervisor how things are; that it is gone is noticed elsewhere."""
        budget = self.worker.budget
        report = Report(
            identity=identity(),
            pid=os.getpid(),
            running=budget.running,
            finished=budget.finished,
            memory=resident_memory(),
            draining=bool(self.worker.draining),
            relayed=self.worker.take_relayed(),
            progress=self.worker.take_progress(),
        )
        with self.lock:
            try:
                self.connection.send(report)
            except OSError:
                pass

    def _serve(self) -> None:
        try:
            due = time.monotonic()
            while True:
                if time.monotonic() >= due:
                    self.report()
                    due = time.monotonic() + REPORT_INTERVAL
                if self.connection.poll(max(0.0, due - time.monotonic())):
                    self._obey(*self.connection.recv())
        except (EOFError, OSError):
            # Without a supervisor nobody renews our leases: whatever runs here may be running elsewhere soon.
            logger.error("supervisor gone, ending at once worker=%s", identity())
            os.kill(os.getpid(), signal.SIGKILL)

    def _obey(self, order: str, *details: Any) -> None:
        match order:
            case "drain":
                self.worker.drain(*details)
            case "hear":
                self.worker.hear(*details)
            case "relay":
                self.worker.relay(*details)
