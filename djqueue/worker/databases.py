"""Settings that a worker's connections need in addition to the project's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from djqueue.conf import config
from djqueue.waiting.wakeup_sources import Poll, source_in_use

from .outages import AWAY

# A server that disappears without closing its connections is noticed in half a minute instead of hours.
KEEPALIVE = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
POOL_SIZE = 4  # of a pool without min_size and max_size
SQLITE_TIMEOUT = 30.0
WAL = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"
# Jobs are often shorter than the time to connect, so connections are kept, in seconds.
KEPT_FOR = 60


@contextmanager
def prepared() -> Iterator[None]:
    """Complete the settings of all databases for the connections that are made in the body.

    Options set by the project are kept. The settings are shared by the connections of all threads.
    """
    shared = [connection.settings_dict for connection in connections.all()]
    before = [settings | {"OPTIONS": dict(settings["OPTIONS"])} for settings in shared]
    _prepare()
    try:
        yield
    finally:
        for settings, original in zip(shared, before, strict=True):
            settings.update(original)


def _prepare() -> None:
    for connection in connections.all():
        settings = connection.settings_dict
        # Each thread keeps its own connection; a pool could only run out of them.
        settings["OPTIONS"].pop("pool", None)
        if settings["CONN_MAX_AGE"] == 0:
            settings.update(CONN_MAX_AGE=KEPT_FOR, CONN_HEALTH_CHECKS=True)
    _prepare_queue(connections[config().database])


def _prepare_queue(connection: BaseDatabaseWrapper) -> None:
    options: dict[str, Any] = connection.settings_dict["OPTIONS"]
    if connection.vendor == "postgresql":
        for name, value in KEEPALIVE.items():
            options.setdefault(name, value)
    elif connection.vendor == "sqlite":
        # The same database for SQLite; but Django never closes a connection to a name with "mode=memory".
        connection.settings_dict["NAME"] = str(connection.settings_dict["NAME"]).replace("mode=memory", "mode=%6Demory")
        options.setdefault("transaction_mode", "IMMEDIATE")
        options["timeout"] = max(SQLITE_TIMEOUT, options.get("timeout", 0))
        if "journal_mode" not in options.get("init_command", "").lower():
            options["init_command"] = "; ".join(filter(None, [options.get("init_command"), WAL]))


def pool_problem(connection: BaseDatabaseWrapper, connections_needed: int) -> str | None:
    """Return why the connection pool of the project is too small for a worker, or None."""
    options = connection.settings_dict.get("OPTIONS")
    pool = options.get("pool") if isinstance(options, dict) else None
    sizes = pool if isinstance(pool, dict) else {}
    size = sizes.get("max_size") or sizes.get("min_size") or POOL_SIZE
    if not pool or not isinstance(size, int) or size >= connections_needed:
        return None
    return (
        f"The connection pool of the database {connection.alias!r} allows {size} connections, but a worker opens at "
        f"least {connections_needed}: one per thread. Workers do not use the pool."
    )


def wake_up() -> str:
    """Return how this worker is woken up for new jobs, for the banner."""
    try:
        kind = source_in_use(config().database)
    except AWAY:
        return "unknown"
    return f"poll every {config().poll_interval:g} s" if kind == Poll.kind else kind
