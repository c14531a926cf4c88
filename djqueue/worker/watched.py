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

from .board import Board
from .heartbeats import Life
from .link import Report

# News for a process that does not read is dropped beyond this: it is told again.
MOST_UNSENT = 100


class Watched:
    """From the order to fork it until it has ended.

    Two threads talk with it, for it may stop in the middle of a word: nobody else must wait for it.
    """

    def __init__(self, board: Board, link: Connection[Any, Any], heard: Callable[[], None]) -> None:
        self.board = board
        self.link = link
        self.heard = heard
        self.pid = 0
        self.born_at = time.monotonic()
        self.life: Life | None = None  # once it has reported
        self.draining = False
        self.killed_for = ""
        self.blamed: frozenset[UUID] = frozenset()
        self.unanswered: deque[tuple[Any, ...]] = deque()  # announcements that it was asked for and has not made yet
        self.outbox: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self.inbox: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self.reader = threading.Thread(target=self._read, name="djqueue-reader", daemon=True)
        self.reader.start()
        threading.Thread(target=self._write, name="djqueue-writer", daemon=True).start()

    def send(self, *message: Any) -> None:
        """Pass a message on, when it reads."""
        self.outbox.put(message)

    def tell(self, *news: Any) -> None:
        """The same for what is told again if it is lost."""
        if self.outbox.qsize() < MOST_UNSENT:
            self.outbox.put(news)

    def relay(self, news: tuple[Any, ...]) -> None:
        """Have an announcement made; it is kept until it was."""
        self.unanswered.append(news)
        self.send("relay", *news)

    def reports(self) -> Iterator[Report]:
        """What it has told and nobody has read."""
        with suppress(queue.Empty):
            while True:
                report = self.inbox.get_nowait()
                for _ in range(min(report.relayed, len(self.unanswered))):
                    self.unanswered.popleft()
                yield report

    def kill(self, reason: str) -> None:
        self.killed_for = self.killed_for or reason
        if self.pid:
            with suppress(ProcessLookupError):  # it has ended, and the template will say so
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """It has ended: hear its last words."""
        self.reader.join(1)
        self.outbox.put(None)

    def _read(self) -> None:
        try:
            while True:
                self.inbox.put(self.link.recv())
                self.heard()
        except (EOFError, OSError, ValueError):
            return  # how it ended, the template will say

    def _write(self) -> None:
        try:
            while (message := self.outbox.get()) is not None:
                self.link.send(message)
        except (OSError, ValueError):
            pass  # it is gone
        self.reader.join()
        self.link.close()
