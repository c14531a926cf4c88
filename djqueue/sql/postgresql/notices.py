"""Notify after commits: the threads of a process that do so at the same time share a statement.

A transaction that inserts and notifies holds a lock of the whole server while it waits for the disk. One that only
notifies does not wait for the disk, but they still run one after the other, so there should be few of them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from threading import Event, Lock

Notice = tuple[str, str]  # a channel and a payload

# Seconds to wait for another thread, whose connection may hang. Workers poll for what it cannot send.
PATIENCE = 1.0


class _Group:
    def __init__(self) -> None:
        self.notices: set[Notice] = set()
        self.ended = Event()


class Notices:
    """Groups of notices for one database, sent one after the other, each by the thread whose notice was its first."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.last = _Group()  # being sent, or sent
        self.last.ended.set()
        self.open = _Group()

    def send(self, notice: Notice, send: Callable[[Iterable[Notice]], object]) -> None:
        """Return when the notice has been sent since this call, by `send` or by another thread."""
        with self.lock:
            group, leads = self.open, not self.open.notices
            group.notices.add(notice)
        if not leads:
            group.ended.wait(PATIENCE)
            return
        try:
            self.last.ended.wait(PATIENCE)
        finally:
            with self.lock:
                self.last, self.open = group, _Group()
        try:
            send(group.notices)
        finally:
            group.ended.set()


of_databases: defaultdict[str, Notices] = defaultdict(Notices)  # by their aliases
os.register_at_fork(after_in_child=of_databases.clear)
