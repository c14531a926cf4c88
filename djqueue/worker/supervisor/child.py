"""A worker process as its supervisor sees it."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any
from uuid import UUID

from djqueue.core.log import logger
from djqueue.lifecycle.announce import Relayed
from djqueue.worker.held_jobs import HeldJobs
from djqueue.worker.messages import Drain, Message, Order, Report, SendSignal

from .heartbeats import ProcessStatus

# The maximum number of unread orders to a process; further ones are dropped if they will be sent again anyway.
MOST_UNSENT = 100
# Seconds without a report after which a process counts as silent.
SILENT_AFTER = 10.0


class Child:
    """From the request to fork the process until it has exited.

    Two threads of its own read from it and write to it: a process may stop in the middle of a message, and nothing
    else must wait for it. `wake` is called after a message has been read.
    """

    def __init__(self, held_jobs: HeldJobs, pipe: Connection[Any, Any], wake: Callable[[], None]) -> None:
        self.held_jobs = held_jobs
        self.pipe = pipe
        self.wake = wake
        self.pid = 0
        self.created_at = self.last_message_at = time.monotonic()
        self.silent = False
        self.taken = 0  # jobs that it has reported to have taken
        self.status: ProcessStatus | None = None  # once it has reported
        self.draining = False
        self.killed_for = ""  # the reason
        self.blamed: frozenset[UUID] = frozenset()  # the jobs for which the supervisor has killed it
        self.unsent_signals: deque[Relayed] = deque()  # that it was ordered to send, and has not reported as sent
        self.outbox: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.reader = threading.Thread(target=self._read, name="djqueue-reader", daemon=True)
        self.reader.start()
        threading.Thread(target=self._write, name="djqueue-writer", daemon=True).start()

    def send(self, order: Order) -> None:
        """Send an order as soon as the process reads."""
        self.outbox.put(order)

    def send_unless_full(self, order: Order) -> None:
        """Send an order that will be sent again if it is dropped now."""
        if self.outbox.qsize() < MOST_UNSENT:
            self.outbox.put(order)

    def drain(self, reason: str, within: float | None = None) -> None:
        self.draining = True
        if self.status:
            self.status.draining = True
        self.send(Drain(reason, within))

    def send_signal(self, relayed: Relayed) -> None:
        """Let the process send a signal; keep it until the process reports that it did."""
        self.unsent_signals.append(relayed)
        self.send(SendSignal(relayed))

    @property
    def is_working(self) -> bool:
        return not (self.draining or self.killed_for)

    def messages(self) -> Iterator[Message]:
        """Return what the process has sent since the last call."""
        with suppress(queue.Empty):
            while True:
                message = self.inbox.get_nowait()
                self.last_message_at = time.monotonic()
                if isinstance(message, Report):
                    for _ in range(min(message.signals_sent, len(self.unsent_signals))):
                        self.unsent_signals.popleft()
                yield message

    def check_silence(self, now: float) -> None:
        """Log a warning if the process no longer reports: it was stopped, or a task blocks the interpreter."""
        silent_for = now - self.last_message_at
        if self.status is None or self.silent == (silent_for > SILENT_AFTER):
            return
        self.silent = not self.silent
        if self.silent:
            running = sum(1 for _ in self.held_jobs.read(running=True))
            logger.warning("process does not respond pid=%d seconds=%.0f running=%d", self.pid, silent_for, running)
        else:
            logger.info("process responds again pid=%d", self.pid)

    def kill(self, reason: str) -> None:
        self.killed_for = self.killed_for or reason
        if self.pid:
            with suppress(ProcessLookupError):  # it has exited, and the fork server will report it
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Read the last messages of a process that has exited."""
        self.reader.join(1)
        self.outbox.put(None)

    def _read(self) -> None:
        try:
            while True:
                self.inbox.put(self.pipe.recv())
                self.wake()
        except (EOFError, OSError, ValueError):
            return  # the fork server will report how it exited

    def _write(self) -> None:
        try:
            while (order := self.outbox.get()) is not None:
                self.pipe.send(order)
        except (OSError, ValueError):
            pass  # it has exited
        self.reader.join()
        self.pipe.close()
