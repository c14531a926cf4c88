"""How a process learns that another one has committed something: one source per kind of database.

A source is used by one thread alone. `wait` gives the channels that spoke, or all of them when it cannot tell.
"""

from __future__ import annotations

import selectors
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from .channels import CHECK, ENDED, PENDING, SCHEDULED
from .conf import config

Wakeup = tuple[str, str | None]  # channel and queue; None stands for any

ANYTHING: list[Wakeup] = [(PENDING, None), (SCHEDULED, None), (ENDED, None)]

# While LISTEN is alive nothing has to be polled; this is for what went wrong unnoticed.
SAFETY_POLL = 10.0
SQLITE_POLL = 0.01
# How long a notification of our own may take to come back before we take LISTEN for broken.
ROUND_TRIP = 1.0
# After that we poll for so long before we try to listen again.
DEAF_FOR = 300.0
_deaf_until: dict[str, float] = {}


class Source(ABC):
    """A private connection, and the way to wait on it; `interrupt` is a file descriptor that ends a wait."""

    kind: str

    def __init__(self, alias: str, interrupt: int) -> None:
        self.connection = private_connection(alias)
        self.interrupt = interrupt

    @abstractmethod
    def wait(self, timeout: float) -> Iterable[Wakeup]:
        """Block until something may have happened, the wait is interrupted or the time is over."""

    def close(self) -> None:
        with suppress(DatabaseError):
            self.connection.close()

    def sleep(self, timeout: float, *also: Any) -> bool:
        """Block until there is something to read, or the time is over; True when we were interrupted."""
        return self.interrupt in readable([self.interrupt, *also], timeout)


class Poll(Source):
    """Nothing tells: look again after POLL_INTERVAL."""

    kind = "poll"

    def __init__(self, alias: str, interrupt: int) -> None:
        super().__init__(alias, interrupt)
        self.next_look = time.monotonic() + config().poll_interval

    def wait(self, timeout: float) -> Iterable[Wakeup]:
        self.sleep(min(timeout, self.next_look - time.monotonic()))
        if time.monotonic() < self.next_look:
            return []
        self.next_look = time.monotonic() + config().poll_interval
        return ANYTHING


class DataVersion(Source):
    """SQLite counts the commits of other connections, and asking for the count costs microseconds."""

    kind = "data_version"

    def __init__(self, alias: str, interrupt: int) -> None:
        super().__init__(alias, interrupt)
        self.version = self._read()

    def wait(self, timeout: float) -> Iterable[Wakeup]:
        deadline = time.monotonic() + timeout
        while True:
            version = self._read()
            if version != self.version:
                self.version = version
                return ANYTHING
            pause = min(SQLITE_POLL, deadline - time.monotonic())
            if pause <= 0 or self.sleep(pause):
                return []

    def _read(self) -> int:
        with self.connection.cursor() as cursor:
            cursor.execute("PRAGMA data_version")
            return int(cursor.fetchone()[0])


class Listen(Source):
    """PostgreSQL tells, in milliseconds. The connection is our own: LISTEN is a state of the session."""

    kind = "notify"

    def __init__(self, alias: str, interrupt: int) -> None:
        super().__init__(alias, interrupt)
        self.heard: list[Wakeup] = []
        try:
            self._listen()
        except BaseException:
            self.close()
            raise

    def _listen(self) -> None:
        self.connection.ensure_connection()
        self.driver: Any = self.connection.connection
        self.driver.add_notify_handler(self._hear)
        with self.connection.cursor() as cursor:
            for channel in (PENDING, SCHEDULED, ENDED, CHECK):
                cursor.execute(f"LISTEN {channel}")
        self.next_check = time.monotonic() + SAFETY_POLL

    def works(self, alias: str) -> bool:
        """Whether what another session says reaches us; behind a transaction-mode pooler it does not."""
        other = private_connection(alias)
        try:
            with other.cursor() as cursor:
                cursor.execute("SELECT pg_notify(%s, '')", [CHECK])
        finally:
            other.close()
        deadline = time.monotonic() + ROUND_TRIP
        while not self.heard and time.monotonic() < deadline:
            readable([self.driver.fileno()], deadline - time.monotonic())
            self._collect()
        return bool(self.heard)

    def wait(self, timeout: float) -> Iterable[Wakeup]:
        now = time.monotonic()
        if not self.heard:
            self.sleep(min(timeout, self.next_check - now), self.driver.fileno())
        self._collect()
        if time.monotonic() >= self.next_check:
            self.next_check = time.monotonic() + SAFETY_POLL
            with self.connection.cursor() as cursor:
                cursor.execute("SELECT 1")  # raises when the connection is gone
            return ANYTHING
        heard, self.heard = self.heard, []
        return heard

    def _collect(self) -> None:
        self.driver.pgconn.consume_input()
        while (notify := self.driver.pgconn.notifies()) is not None:
            self.heard.append((notify.relname.decode(), notify.extra.decode() or None))

    def _hear(self, notify: Any) -> None:
        # What comes in while a query of ours runs.
        self.heard.append((notify.channel, notify.payload or None))


def readable(files: Iterable[Any], timeout: float) -> list[Any]:
    """Which of them can be read; select() itself knows no file beyond the 1,024th."""
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(max(0.0, timeout))]


def open_source(alias: str, interrupt: int) -> Source:
    """The best source that works for the queue's database."""
    vendor = connections[alias].vendor
    if vendor == "sqlite":
        return DataVersion(alias, interrupt)
    if vendor == "postgresql" and config().notify and _deaf_until.get(alias, 0.0) < time.monotonic():
        source = Listen(config().listen_database or alias, interrupt)
        try:
            if source.works(alias):
                return source
        except BaseException:
            source.close()
            raise
        source.close()
        _deaf_until[alias] = time.monotonic() + DEAF_FOR
    return Poll(alias, interrupt)


def private_connection(alias: str) -> BaseDatabaseWrapper:
    """A connection of our own beside the thread's, never from a pool: what we set on it must not outlive us."""
    connection = connections[alias].copy()
    connection.settings_dict["OPTIONS"] = {
        name: value for name, value in connection.settings_dict["OPTIONS"].items() if name != "pool"
    }
    return connection
