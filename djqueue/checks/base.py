"""What the checks share: how they are registered, and settings that may be invalid."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import django.core.checks
from django.apps import AppConfig
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.connection import ConnectionDoesNotExist

from djqueue import conf
from djqueue.core import registry

SETTINGS = "djqueue_settings"  # the tag of checks that need no tasks, so the supervisor of a worker can run them
DATABASE = "djqueue_database"  # not "djqueue": Django 6.1 runs database checks whose other tag is selected
DOCS = "docs/reference/checks.md"

Check = Callable[..., list[CheckMessage]]


def register(*tags: str, **options: Any) -> Callable[[Check], Check]:
    """Register a check; the hint of each of its messages names the section of the documentation."""

    def decorate(check: Check) -> Check:
        @functools.wraps(check)
        def run(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
            return documented(check(app_configs, **kwargs))

        registered: Check = django.core.checks.register(*tags, **options)(run)
        return registered

    return decorate


def documented(messages: list[CheckMessage]) -> list[CheckMessage]:
    """Add the section of the documentation to the hint of each message."""
    for message in messages:
        message.hint = f"{message.hint or ''} See {DOCS}#{message.id}.".strip()
    return messages


def valid_config() -> conf.Config | None:
    """Return the setting, or None if it is not valid, which the first two checks report."""
    try:
        return conf.config()
    except ImproperlyConfigured:
        return None


def queue_connection() -> BaseDatabaseWrapper | None:
    """Return the connection of the queue, not opened; None if its settings are not valid, which Django reports."""
    if (config := valid_config()) is None:
        return None
    try:
        return connections[config.database]
    except (ImproperlyConfigured, ConnectionDoesNotExist, ImportError):
        return None


def import_tasks() -> Exception | None:
    """Import the tasks of all apps; return the error if that fails."""
    try:
        registry.discover()
    except Exception as error:  # of the project's code
        return error
    return None
