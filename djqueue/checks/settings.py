"""The DJQUEUE setting, the time zone, hooks, and the command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.core.management import find_commands, load_command_class

from djqueue import conf
from djqueue.core import hooks

from .base import SETTINGS, queue_connection, register, valid_config

COMMAND = "runworker"
OWN_NAME = "djqueue"


@register("djqueue", SETTINGS)
def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report unknown keys and invalid values in DJQUEUE."""
    return [Error(problem, id="djqueue.E001") for problem in conf.problems()]


@register("djqueue", deploy=True)
def check_eager(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Warn about EAGER in production."""
    if (config := valid_config()) and config.eager:
        return [
            Warning(
                "DJQUEUE['EAGER'] is True: jobs run in the process that enqueues them, not in a worker.",
                hint="Set it only in settings for tests and development.",
                id="djqueue.W001",
            )
        ]
    return []


@register("djqueue", SETTINGS)
def check_time_zone(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report settings under which times are not stored in UTC, because processes compare stored times."""
    if not settings.USE_TZ:
        return [Error(conf.NEEDS_TIME_ZONES, hint="Set USE_TZ = True in the settings.", id="djqueue.E002")]
    if (connection := queue_connection()) is None:
        return []
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
def check_leases(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Warn about leases in the settings that expire faster than the reaper looks."""
    if (config := valid_config()) is None:
        return []
    leases = {"DJQUEUE['LEASE']": config.lease} | {
        f"DJQUEUE['QUEUES'][{name!r}]['lease']": queue.lease
        for name, queue in config.queues.items()
        if queue.lease is not None
    }
    return short_leases(leases, config)


def short_leases(leases: dict[str, float], config: conf.Config) -> list[CheckMessage]:
    interval = config.reaper_interval
    return [
        Warning(
            f"{where} is {lease:g} s, shorter than REAPER_INTERVAL, which is {interval:g} s: the jobs of a lost worker "
            f"are retried after up to {interval:g} s.",
            hint="Set a longer lease, or a shorter DJQUEUE['REAPER_INTERVAL'].",
            id="djqueue.W011",
        )
        for where, lease in leases.items()
        if lease < interval
    ]


@register("djqueue")
def check_hooks(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report functions of AROUND and HEADERS that cannot be imported."""
    if valid_config() is None:
        return []
    hint = "Correct the dotted path, install what its module imports, or remove it from the list."
    return [Error(problem, hint=hint, id="djqueue.E006") for problem in hooks.problems()]


@register("djqueue")
def check_command(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Warn if another app has a runworker command too."""
    providers = [
        app.name for app in apps.get_app_configs() if COMMAND in find_commands(os.path.join(app.path, "management"))
    ]
    others = [name for name in providers if name != OWN_NAME and not _extends_command(name)]
    if not others or OWN_NAME not in providers:
        return []
    return [
        Warning(
            f"{', '.join(others)} also provides a {COMMAND} command. Django uses that of {providers[0]}, which is "
            "listed first in INSTALLED_APPS.",
            hint="Start the worker of djqueue with manage.py djqueue_worker.",
            id="djqueue.W002",
        )
    ]


def _extends_command(app: str) -> bool:
    """Return whether the command of another app is a subclass of that of djqueue."""
    from djqueue.management.commands.runworker import Command

    try:
        return isinstance(load_command_class(app, COMMAND), Command)
    except Exception:  # of the other app's code
        return False
