"""Whether the database responds in time, as seen by all loops of one process.

Invariant: no living job is reaped because the database or this machine stalled. A stall delays the renewals of
every worker and raises no error. So the reaper acts only after half a lease in which all statements of this process
got a response in time. A statement without any response is cancelled, so that its loop can try again.
tests/processes/test_stalls.py attacks this.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from djqueue.conf import config
from djqueue.core.log import logger
from djqueue.sql import statements_on
from djqueue.waiting.wakeup_sources import shut_down, socket_of

from .threads import Fatal, VitalThread

# Raised by statements while the database is unavailable, and by the first ones after an outage.
AWAY = (DatabaseError, InterfaceError)
# PostgreSQL: connection, no room, operator.
# MariaDB: too many connections, a Galera node that is not ready, read-only, interrupted, cannot connect, gone, lost.
_OUTAGE_CLASSES = ("08", "53", "57")
_READ_ONLY = "25006"  # the driver raises an InternalError for it
_OUTAGE_NUMBERS = (1040, 1047, 1290, 1317, 2002, 2003, 2006, 2013)
LONGEST_PAUSE = 5.0
# A thread that has not failed for so many seconds, and has not tried since, does not count as failing any more.
FORGET_AFTER = 2 * LONGEST_PAUSE
# Seconds between two checks of the statements under way.
TICK = 0.5
# If a statement is still running this long after the request to cancel it, its connection is closed.
HANG_UP_AFTER = 3.0


def late() -> float:
    """Return the seconds after which a response is late: before that, no lease that is renewed in time can expire."""
    return max(1.0, config().lease / 6)


def overdue() -> float:
    """Return the seconds after which a statement is cancelled."""
    return max(5.0, config().lease / 2)


class Watch:
    """The statements that one thread is sending to the database."""

    def __init__(self, what: str, connection: BaseDatabaseWrapper, patience: Callable[[], float]) -> None:
        self.what = what
        self.connection = connection
        self.patience = patience
        self.since = time.monotonic()  # start of the current statement, or end of the last one
        self.longest = 0.0
        self.interrupted = False
        self.responded = False  # to any statement
        self.driver: Any = None
        # What another thread needs to end a statement. Looked up before one is sent: meanwhile, the driver of MariaDB
        # refuses calls of other threads.
        self.session_id: int | None = None
        self.socket: int | None = None

    def answered(self) -> None:
        now = time.monotonic()
        self.longest = max(self.longest, now - self.since)
        self.since = now
        self.interrupted = False

    def execute(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        """Wrap a statement; BEGIN, COMMIT and connecting count as part of the statements next to them."""
        if self.driver is not self.connection.connection:
            self.driver = self.connection.connection
            self.session_id = statements_on(self.connection).session_id()
            self.socket = socket_of(self.connection)
        self.answered()
        try:
            result = execute(sql, params, many, context)
            self.responded = True
            return result
        finally:
            self.answered()


class Outages:
    """When the database last failed to respond in time; the start counts as a failure, because nothing is known yet."""

    def __init__(self, fatal: Fatal) -> None:
        self.unsteady_at = self.ticked_at = time.monotonic()
        self.away_since = 0.0  # monotonic; 0 while the database is available
        self.failing: dict[int, float] = {}  # the threads that found it unavailable, and when each last did
        self.failing_lock = threading.Lock()
        self.watches: dict[int, Watch] = {}
        self.stopping = threading.Event()
        self.thread = VitalThread(self._watch, "djqueue-outages", fatal)

    def start(self) -> None:
        self.ticked_at = time.monotonic()
        self.thread.start()

    def stop(self) -> None:
        self.stopping.set()

    @contextmanager
    def watching(self, what: str, patience: Callable[[], float] = overdue) -> Iterator[None]:
        """Watch all statements that this thread sends to the queue's database in the body."""
        connection = connections[config().database]
        watch = Watch(what, connection, patience)
        self.watches[threading.get_ident()] = watch
        # Not connection.execute_wrapper(), which removes the last wrapper: the project may add its own meanwhile, when
        # the connection is made.
        connection.execute_wrappers.append(watch.execute)
        try:
            yield
        finally:
            connection.execute_wrappers.remove(watch.execute)
            del self.watches[threading.get_ident()]
            watch.answered()
            if watch.longest > late():
                self.unsteady_at = time.monotonic()
                logger.warning("database slow what=%r seconds=%.1f", what, watch.longest)
        if self.failing and watch.responded:
            self._succeeded()

    def failed(self, what: str, error: Exception) -> None:
        """Log that a turn of a loop failed, and close this thread's connections, so that the next turn may succeed.

        No error stops a loop of a worker.
        """
        # The first line alone: those behind it may contain the row that a statement was about.
        text = str(error).strip().partition("\n")[0]
        if is_outage(error):
            self.unsteady_at = time.monotonic()
            self._log_outage(what, text)
        elif isinstance(error, AWAY):
            logger.warning("%s failed, trying again error=%s", what, text)
        else:
            logger.error("%s failed, trying again error=%s", what, text, exc_info=error)
        for connection in connections.all(initialized_only=True):
            try:
                connection.close()
            except Exception:
                del connections[connection.alias]

    def _log_outage(self, what: str, text: str) -> None:
        """Log the begin of an outage once: when a thread has failed twice, because a single connection may break."""
        thread, now = threading.get_ident(), time.monotonic()
        with self.failing_lock:
            begins = not self.away_since and thread in self.failing
            self.failing[thread] = now
            if begins:
                self.away_since = now
        if begins:
            logger.warning("database unavailable, trying again until it responds what=%r error=%s", what, text)
        else:
            level = logging.DEBUG if self.away_since else logging.INFO
            logger.log(level, "%s failed, trying again error=%s", what, text)

    def _succeeded(self) -> None:
        """Log the end of an outage when every thread that noticed it has got a response, or has not tried again."""
        now = time.monotonic()
        with self.failing_lock:
            self.failing.pop(threading.get_ident(), None)
            self.failing = {thread: at for thread, at in self.failing.items() if now - at < FORGET_AFTER}
            seconds, over = now - self.away_since, bool(self.away_since and not self.failing)
            if over:
                self.away_since = 0.0
        if over:
            logger.info("database available again seconds=%.1f", seconds)

    def steady_for(self) -> float:
        """Return for how many seconds all responses were in time; 0 while one is late, or after a suspension."""
        now = time.monotonic()
        stood_still = now - self.ticked_at > TICK + late()
        waiting = any(now - watch.since > late() for watch in list(self.watches.values()))
        return 0.0 if stood_still or waiting else now - self.unsteady_at

    def _watch(self) -> None:
        while not self.stopping.wait(TICK):
            now = time.monotonic()
            if now - self.ticked_at > TICK + late():
                self.unsteady_at = now
                logger.warning("process was suspended seconds=%.1f", now - self.ticked_at - TICK)
            self.ticked_at = now
            for watch in list(self.watches.values()):
                age = now - watch.since
                if age > late():
                    self.unsteady_at = now
                if age > watch.patience() and not watch.interrupted:
                    watch.interrupted = True
                    logger.warning(
                        "database does not respond, cancelling statement what=%r seconds=%.1f", watch.what, age
                    )
                    # In a separate thread: the server may not respond to this request either.
                    threading.Thread(target=_end, args=[watch, watch.since], daemon=True).start()


def _end(watch: Watch, since: float) -> None:
    """Ask the server to cancel a statement; if it keeps running, close the connection.

    The statement may be one of those that are sent while a connection is being made, which `watch` has not seen.
    """
    with suppress(Exception):
        statements_on(watch.connection).interrupt(watch.session_id)
    driver, deadline = watch.connection.connection, time.monotonic() + HANG_UP_AFTER
    while watch.since == since:
        if watch.connection.connection is not driver:
            driver, deadline = watch.connection.connection, time.monotonic() + HANG_UP_AFTER
        elif driver is not None and time.monotonic() > deadline:
            with suppress(Exception):
                shut_down(watch.socket if driver is watch.driver else socket_of(watch.connection))
            return
        time.sleep(0.05)


def is_outage(error: Exception) -> bool:
    """Return whether other workers may fail to renew their leases; the error of a single statement is not an outage."""
    if isinstance(error, InterfaceError):
        return True
    cause: Any = error.__cause__
    if getattr(cause, "sqlstate", None) == _READ_ONLY:
        return True
    if not isinstance(error, OperationalError):
        return False
    if hasattr(cause, "sqlstate"):  # without one the connection itself failed
        return cause.sqlstate is None or cause.sqlstate[:2] in _OUTAGE_CLASSES
    return bool(error.args) and error.args[0] in _OUTAGE_NUMBERS


def pause(failures: int) -> float:
    """Return how long to wait after a number of failures in a row: longer each time, with jitter."""
    return min(LONGEST_PAUSE, 0.05 * 2.0 ** min(failures, 8)) * random.uniform(0.5, 1)
