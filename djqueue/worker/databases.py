"""What a worker's own connections need beyond the project's settings."""

from __future__ import annotations

from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from djqueue.conf import config

# A server that is gone without a word is noticed in half a minute instead of hours.
KEEPALIVE = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
SQLITE_TIMEOUT = 30.0
WAL = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"


# A job is shorter than a request, and there are more of them: a new connection for each would take longer than most.
KEPT_FOR = 60


def prepare() -> None:
    """Complete the settings of databases before anything has connected; what the project says stays."""
    for connection in connections.all():
        connection.close()
        settings = connection.settings_dict
        # The threads of a worker are a pool of connections already; another behind them could only run dry.
        settings["OPTIONS"].pop("pool", None)
        if settings["CONN_MAX_AGE"] == 0:
            settings.update(CONN_MAX_AGE=KEPT_FOR, CONN_HEALTH_CHECKS=True)
    _prepare_queue(connections[config().database])


def _prepare_queue(connection: BaseDatabaseWrapper) -> None:
    options: dict[str, Any] = connection.settings_dict.setdefault("OPTIONS", {})
    if connection.vendor == "postgresql":
        for name, value in KEEPALIVE.items():
            options.setdefault(name, value)
    elif connection.vendor == "sqlite":
        options.setdefault("transaction_mode", "IMMEDIATE")
        options["timeout"] = max(SQLITE_TIMEOUT, options.get("timeout", 0))
        if "journal_mode" not in options.get("init_command", "").lower():
            options["init_command"] = "; ".join(filter(None, [options.get("init_command"), WAL]))


def wake_up() -> str:
    """How this worker will learn of new jobs, for the banner."""
    settings = config()
    match connections[settings.database].vendor:
        case "postgresql" if settings.notify:
            return "notify"
        case "sqlite":
            return "data_version"
    return f"poll every {settings.poll_interval:g} s"
