"""What a worker's own connections need beyond the project's settings."""

from __future__ import annotations

from typing import Any

from django.db import connections

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


def prepare() -> None:
    """Complete the OPTIONS of the queue's database, before anything has connected; what the project says stays."""
    connection = connections[config().database]
    connection.close()
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
