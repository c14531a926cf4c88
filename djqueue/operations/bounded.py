"""Connections that are not waited for without end: for probes and for the doctor, while a database hangs."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from djqueue.waiting.wakeup_sources import private_connection

# Seconds; libpq treats 1 as 2.
CONNECT_WITHIN = 3


@contextmanager
def bounded_connection(alias: str) -> Iterator[None]:
    """Use the open connection of this thread, or another one whose attempt to connect ends in time.

    A SQLite database has no server, and one in memory cannot be opened twice.
    """
    usual = connections[alias]
    if usual.vendor == "sqlite" or usual.connection is not None:
        yield
        return
    bounded = private_connection(alias)
    bounded.settings_dict["OPTIONS"].setdefault("connect_timeout", CONNECT_WITHIN)
    connections[alias] = bounded
    try:
        yield
    finally:
        bounded.close()
        connections[alias] = usual


@contextmanager
def hung_up_after(
    seconds: float, connection: BaseDatabaseWrapper, cancel: Callable[[], None] | None = None
) -> Iterator[None]:
    """Call `cancel` if the body takes longer; if that fails, or without it, shut down the socket of the connection.

    The socket is looked up first: the driver of MariaDB refuses calls from another thread while a statement runs.
    """
    connection.ensure_connection()
    driver: Any = connection.connection
    if not hasattr(driver, "fileno"):  # SQLite has no socket
        yield
        return
    with socket.socket(fileno=os.dup(driver.fileno())) as handle:
        watchdog = threading.Timer(seconds, _hang_up, [handle, cancel])
        watchdog.daemon = True
        watchdog.start()
        try:
            yield
        finally:
            watchdog.cancel()
            watchdog.join()


def _hang_up(handle: socket.socket, cancel: Callable[[], None] | None) -> None:
    try:
        if cancel is None:
            raise InterruptedError
        cancel()
    except Exception:
        with suppress(OSError):  # the server was quicker
            handle.shutdown(socket.SHUT_RDWR)
