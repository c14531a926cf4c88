"""A connection that is not waited for without end: for probes, and for the doctor, while a database hangs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

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
