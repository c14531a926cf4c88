"""Sources of wake-ups: how a process learns that another one has committed something, one per kind of database.

A source is used by a single thread. `wait` returns the channels that were notified, or all channels if the source
cannot distinguish them.
"""

from __future__ import annotations

import math
import os
import selectors
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from djqueue.conf import config
from djqueue.core.channels import (
    BLOCKED,
    CHANNEL_OF_RUSH,
    CHECK,
    ENDED,
    PENDING,
    RUSHES,
    SCHEDULED,
    parse_rush_request,
)
from djqueue.core.log import logger

from .rushes import Rushes, Wakeup

ANYTHING: list[Wakeup] = [(PENDING, None), (SCHEDULED, None), (ENDED, None), (BLOCKED, None)]

# LISTEN needs no polling; this is the interval of a check for lost connections and lost notifications.
SAFETY_POLL = 10.0
SQLITE_POLL = 0.01
# A connection that does not respond to a query of the listener within this time is closed.
ANSWER_WITHIN = 5.0
# A test notification that takes longer than this to arrive shows that LISTEN does not work.
ROUND_TRIP = 1.0
# Without LISTEN the source polls, and LISTEN is tried again after these delays, doubled each time.
LISTEN_AGAIN_AFTER, LISTEN_AGAIN_AT_MOST = 10.0, 300.0


class Source(ABC):
    """A private connection and a way to wait on it; `interrupt` is a file descriptor that ends a wait."""

    kind: str
    reopen_at = math.inf  # when to try a better source, in monotonic seconds

    def __init__(self, alias: str, interrupt: int) -> None:
        self.connection = private_connection(alias)
        self.interrupt = interrupt

    def listen_to(self, channels: Iterable[str]) -> list[Wakeup]:
        """Wait for these channels too. Return those that were not waited for before: what was missed is not known."""
        return []

    @abstractmethod
    def wait(self, timeout: float) -> Iterable[Wakeup]:
        """Block until something may have happened, the wait is interrupted or the timeout is reached."""

    def close(self) -> None:
        with suppress(DatabaseError):
            self.connection.close()

    def sleep(self, timeout: float, *also: Any) -> bool:
        """Block until there is something to read or the timeout is reached; return whether it was an interrupt."""
        return self.interrupt in readable([self.interrupt, *also], timeout)


class Poll(Source):
    """Wake up after every POLL_INTERVAL, where the database sends no notifications."""

    kind = "poll"

    def __init__(self, alias: str, interrupt: int) -> None:
        super().__init__(alias, interrupt)
        self.next_poll = time.monotonic() + config().poll_interval

    def wait(self, timeout: float) -> Iterable[Wakeup]:
        self.sleep(min(timeout, self.next_poll - time.monotonic()))
        if time.monotonic() < self.next_poll:
            return []
        self.next_poll = time.monotonic() + config().poll_interval
        return ANYTHING


class DataVersion(Source):
    """Poll the counter in which SQLite counts the commits of other connections; reading it takes microseconds."""

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
    """Wait for PostgreSQL's notifications. The connection is private, because LISTEN belongs to a session.

    It listens to the channels alone that a caller needs: every settlement and every enqueue sends a notification, and
    would wake up all processes.
    """

    kind = "notify"

    def __init__(self, alias: str, interrupt: int) -> None:
        super().__init__(alias, interrupt)
        self.received: list[Wakeup] = []
        self.channels: set[str] = set()
        self.rushes = Rushes()
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        self.connection.ensure_connection()
        self.driver: Any = self.connection.connection
        self.driver.add_notify_handler(self._receive)
        self.listen_to([CHECK])
        self.next_check = time.monotonic() + SAFETY_POLL

    def listen_to(self, channels: Iterable[str]) -> list[Wakeup]:
        new = set(channels) - self.channels
        if new:
            with answered_in_time(self.connection), self.connection.cursor() as cursor:
                for channel in sorted(new | {RUSHES[channel] for channel in new & RUSHES.keys()}):
                    cursor.execute(f"LISTEN {channel}")
            self.channels |= new
            for channel in new & RUSHES.keys():
                self.rushes.may_have_begun((channel, None))
        return [(channel, None) for channel in new]

    def works(self, alias: str) -> bool:
        """Return whether a notification of another session arrives; behind a transaction-mode pooler it does not."""
        other = private_connection(alias)
        try:
            with answered_in_time(other), other.cursor() as cursor:
                cursor.execute("SELECT pg_notify(%s, '')", [CHECK])
        finally:
            other.close()
        deadline = time.monotonic() + ROUND_TRIP
        while not self.received and time.monotonic() < deadline:
            readable([self.driver.fileno()], deadline - time.monotonic())
            self._collect()
        return bool(self.received)

    def wait(self, timeout: float) -> Iterable[Wakeup]:
        if not self.received:
            wake_at = min(self.next_check, self.rushes.next_at())
            self.sleep(min(timeout, wake_at - time.monotonic()), self.driver.fileno())
        self._collect()
        self.received += self.rushes.due()
        if time.monotonic() >= self.next_check:
            self.next_check = time.monotonic() + SAFETY_POLL
            self._check_connection()
            return ANYTHING
        received, self.received = self.received, []
        return received

    def _check_connection(self) -> None:
        """Raise if the connection is lost."""
        with answered_in_time(self.connection), self.connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    def _collect(self) -> None:
        self.driver.pgconn.consume_input()
        while (notify := self.driver.pgconn.notifies()) is not None:
            self._hear(notify.relname.decode(), notify.extra.decode())

    def _receive(self, notify: Any) -> None:
        # Called for notifications that arrive while a query runs on this connection.
        self._hear(notify.channel, notify.payload)

    def _hear(self, channel: str, payload: str) -> None:
        if channel in CHANNEL_OF_RUSH:
            lasts, payload = parse_rush_request(payload)
            wakeup = (CHANNEL_OF_RUSH[channel], payload or None)
            self.rushes.began(wakeup, lasts)
        else:
            wakeup = (channel, payload or None)
        self.received.append(wakeup)


# epoll, the default, takes four more system calls to wait once.
QuickSelector = getattr(selectors, "PollSelector", selectors.DefaultSelector)


def readable(files: Iterable[Any], timeout: float) -> list[Any]:
    """Return the files that can be read. select() would not work for descriptors above 1023."""
    with QuickSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(max(0.0, timeout))]


class ListenBackoff:
    """When to try LISTEN again on a database whose notifications do not arrive."""

    def __init__(self) -> None:
        self.until = 0.0
        self.delay = 0.0

    def failed(self, alias: str) -> None:
        if not self.delay:
            logger.warning(
                "notifications do not arrive, polling instead database=%s poll_interval=%g "
                "hint=\"set DJQUEUE['LISTEN_DATABASE'] to an alias that bypasses the connection pooler\"",
                *(alias, config().poll_interval),
            )
        self.delay = min(LISTEN_AGAIN_AT_MOST, max(LISTEN_AGAIN_AFTER, 2 * self.delay))
        self.until = time.monotonic() + self.delay

    def succeeded(self, alias: str) -> None:
        if self.delay:
            logger.info("notifications arrive again database=%s", alias)
        self.until = self.delay = 0.0


_backoffs: dict[str, ListenBackoff] = defaultdict(ListenBackoff)


def open_source(alias: str, interrupt: int) -> Source:
    """Return the best source that works for the queue's database."""
    vendor = connections[alias].vendor
    if vendor == "sqlite":
        return DataVersion(alias, interrupt)
    if vendor != "postgresql" or not config().notify:
        return Poll(alias, interrupt)
    backoff = _backoffs[alias]
    if backoff.until < time.monotonic():
        source = Listen(config().listen_database or alias, interrupt)
        try:
            if source.works(alias):
                backoff.succeeded(alias)
                return source
        except BaseException:
            source.close()
            raise
        source.close()
        backoff.failed(alias)
    poll = Poll(alias, interrupt)
    poll.reopen_at = backoff.until
    return poll


def source_in_use(alias: str) -> str:
    """Return the kind of source that this process would use, by opening one."""
    source = open_source(alias, -1)
    try:
        return source.kind
    finally:
        source.close()


@contextmanager
def answered_in_time(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Close the connection if the body takes too long: a lost server may never respond."""
    watchdog = threading.Timer(ANSWER_WITHIN, hang_up, [connection])
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


def hang_up(connection: BaseDatabaseWrapper) -> None:
    """Shut down the socket of a connection, so that a thread waiting on it gets an error."""
    with suppress(Exception):  # another thread may close the connection
        shut_down(socket_of(connection))


def socket_of(connection: BaseDatabaseWrapper) -> int | None:
    """Return the file descriptor of an open connection; None for SQLite, which has none."""
    driver: Any = connection.connection
    return int(driver.fileno()) if hasattr(driver, "fileno") else None


def shut_down(descriptor: int | None) -> None:
    if descriptor is not None:
        with socket.socket(fileno=os.dup(descriptor)) as handle:
            handle.shutdown(socket.SHUT_RDWR)


def private_connection(alias: str) -> BaseDatabaseWrapper:
    """Return a new connection, never from a pool: session state such as LISTEN must not leak into it."""
    connection = connections[alias].copy()
    connection.settings_dict["OPTIONS"] = {
        name: value for name, value in connection.settings_dict["OPTIONS"].items() if name != "pool"
    }
    return connection
