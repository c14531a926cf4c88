"""A worker process as its supervisor sees it."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any
from uuid import UUID

from .board import Board
from .heartbeats import Life
from .link import Report


class Watched:
    """From the order to fork it until it has ended."""

    def __init__(self, board: Board, link: Connection[Any, Any]) -> None:
        self.board = board
        self.link = link
        self.lock = threading.Lock()
        self.pid = 0
        self.born_at = time.monotonic()
        self.life: Life | None = None  # once it has reported
        self.draining = False
        self.killed_for = ""
        self.blamed: frozenset[UUID] = frozenset()

    def send(self, *message: Any) -> bool:
        """Pass a message on; a process that does not read is not waited for."""
        with self.lock:
            try:
                if not select.select([], [self.link], [], 0)[1]:
                    return False
                self.link.send(message)
            except (OSError, ValueError):  # it is gone, or the link is closed
                return False
            return True

    def reports(self) -> Iterator[Report]:
        """What it has told and nobody has read."""
        try:
            while not self.link.closed and self.link.poll():
                yield self.link.recv()
        except (EOFError, OSError):
            self.link.close()  # how it ended, the template will say

    def kill(self, reason: str) -> None:
        self.killed_for = self.killed_for or reason
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
