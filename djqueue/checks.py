"""System checks for the settings and for schedules declared in code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.sqlite3.base import DatabaseWrapper as SQLiteWrapper

from . import conf, schedules

SQLITE_TIMEOUT = 20  # seconds to wait for SQLite's lock
VENDORS = ("postgresql", "sqlite", "mysql")
SETTINGS = "djqueue_settings"  # the tag of checks that need no tasks, so the supervisor of a worker can run them


def _config() -> conf.Config | None:
    """Return the setting, or None if it is not valid, which the first two checks report."""
    try:
        return conf.config()
    except ImproperlyConfigured:
        return None


@register("djqueue", SETTINGS)
def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report unknown keys and invalid values in DJQUEUE."""
    return [Error(problem, id="djqueue.E001") for problem in conf.problems()]


@register("djqueue", SETTINGS)
def check_eager(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Warn that EAGER is not implemented yet."""
    if (config := _config()) and config.eager:
        return [Warning("DJQUEUE['EAGER'] has no effect yet. Jobs are run by a worker.", id="djqueue.W001")]
    return []


@register("djqueue", SETTINGS)
def check_time_zone(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report settings under which times are not stored in UTC, because processes compare stored times."""
    if not settings.USE_TZ:
        return [Error(conf.NEEDS_TIME_ZONES, hint="Set USE_TZ = True in the settings.", id="djqueue.E002")]
    if (config := _config()) is None:
        return []
    connection = connections[config.database]
    if connection.vendor != "postgresql" and connection.settings_dict.get("TIME_ZONE") not in (None, "UTC"):
        return [
            Error(
                f"djqueue requires times in UTC, but DATABASES[{connection.alias!r}]['TIME_ZONE'] is "
                f"{connection.settings_dict['TIME_ZONE']!r}.",
                hint="Remove TIME_ZONE, or set DJQUEUE['DATABASE'] to another alias.",
                id="djqueue.E003",
            )
        ]
    return []


@register("djqueue", SETTINGS)
def check_database(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report a database that is not supported."""
    if (config := _config()) is None or (vendor := connections[config.database].vendor) in VENDORS:
        return []
    return [
        Error(
            f"djqueue supports PostgreSQL, SQLite and MariaDB, but DATABASES[{config.database!r}] is {vendor!r}.",
            hint="Set DJQUEUE['DATABASE'] to the alias of a supported database.",
            id="djqueue.E005",
        )
    ]


@register("djqueue")
def check_schedules(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report invalid schedules that are declared in code."""
    if _config() is None:
        return []
    found: list[CheckMessage] = []
    for name, definition in schedules.declarations().items():
        problems = schedules.problems(name, **definition)
        found += [Error(f"Schedule {name!r}: {problem}.", id="djqueue.E004") for problem in problems.values()]
    return found


@register("djqueue")
def check_command(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Warn if Channels is installed, which has a runworker command too."""
    if not apps.is_installed("channels"):
        return []
    return [
        Warning(
            "Channels also provides a runworker command; Django uses that of the app listed first in INSTALLED_APPS.",
            hint="Start the worker of djqueue with manage.py djqueue_worker.",
            id="djqueue.W002",
        )
    ]


@register("djqueue", SETTINGS)
def check_sqlite(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Warn about SQLite options under which writers get the error "database is locked" while a worker runs."""
    if (config := _config()) is None:
        return []
    connection = connections[config.database]
    if not isinstance(connection, SQLiteWrapper) or connection.is_in_memory_db():
        return []
    options = connection.settings_dict.get("OPTIONS", {})
    if options.get("transaction_mode") == "IMMEDIATE" and options.get("timeout", 0) >= SQLITE_TIMEOUT:
        return []
    return [
        Warning(
            f'The SQLite database {connection.alias!r} may raise "database is locked" while a worker runs.',
            hint=f'Set its OPTIONS to {{"transaction_mode": "IMMEDIATE", "timeout": {SQLITE_TIMEOUT}, '
            '"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"}.',
            id="djqueue.W003",
        )
    ]
