"""System checks: what is wrong with the settings, said before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004
from django.db import connections
from django.db.backends.sqlite3.base import DatabaseWrapper as SQLiteWrapper

from . import conf, schedules

ENOUGH = 20  # seconds to wait for SQLite's lock


@register("djqueue")
def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """DJQUEUE must name only what there is."""
    return [Error(problem, id="djqueue.E001") for problem in conf.problems()]


@register("djqueue")
def check_eager(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """A setting that does nothing yet must not look as if it did."""
    if not conf.problems() and conf.config().eager:
        return [Warning("DJQUEUE['EAGER'] has no effect yet: jobs wait for a worker.", id="djqueue.W001")]
    return []


@register("djqueue")
def check_time_zone(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Instants are compared between processes, so they must be stored as UTC."""
    if not settings.USE_TZ:
        return [Error("djqueue needs USE_TZ = True: it compares instants between processes.", id="djqueue.E002")]
    if conf.problems():
        return []
    connection = connections[conf.config().database]
    if connection.vendor != "postgresql" and connection.settings_dict.get("TIME_ZONE") not in (None, "UTC"):
        return [
            Error(
                f"The database {connection.alias!r} stores times in {connection.settings_dict['TIME_ZONE']}; "
                "djqueue needs them in UTC.",
                hint="Remove TIME_ZONE from DATABASES, or point DJQUEUE['DATABASE'] at another alias.",
                id="djqueue.E003",
            )
        ]
    return []


@register("djqueue")
def check_schedules(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Rules in code are found to be wrong here, before a worker meets them."""
    if conf.problems():
        return []
    found: list[CheckMessage] = []
    for name, definition in schedules.declarations().items():
        problems = schedules.problems(name, **definition)
        found += [Error(f"Schedule {name!r}: {problem}.", id="djqueue.E004") for problem in problems.values()]
    return found


@register("djqueue")
def check_command(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Of two apps with a command of one name, the one that stands later in INSTALLED_APPS is not reached."""
    if not apps.is_installed("channels"):
        return []
    return [
        Warning(
            "Channels has a command named runworker too, and the app that stands first in INSTALLED_APPS has it.",
            hint="Start djqueue's worker as manage.py djqueue_worker.",
            id="djqueue.W002",
        )
    ]


@register("djqueue")
def check_sqlite(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """What a producer on SQLite needs, so that it does not meet "database is locked" beside a worker."""
    if conf.problems():
        return []
    connection = connections[conf.config().database]
    if not isinstance(connection, SQLiteWrapper) or connection.is_in_memory_db():
        return []
    options = connection.settings_dict.get("OPTIONS", {})
    if options.get("transaction_mode") == "IMMEDIATE" and options.get("timeout", 0) >= ENOUGH:
        return []
    return [
        Warning(
            f'The SQLite database {connection.alias!r} may answer "database is locked" while a worker runs.',
            hint=f'Set its OPTIONS to {{"transaction_mode": "IMMEDIATE", "timeout": {ENOUGH}, '
            '"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"}.',
            id="djqueue.W003",
        )
    ]
