"""Statements that the ORM cannot say, one module per database; chosen when a connection is at hand."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from djqueue.conf import config

from .base import Statements as Statements


def statements(alias: str | None = None) -> Statements:
    """The statements for the queue's database, on this thread's connection."""
    return statements_on(connections[alias or config().database])


def statements_on(connection: BaseDatabaseWrapper) -> Statements:
    """The statements for a connection's kind of database."""
    # Imported late: they need the models, and tasks may be declared before those are loaded.
    if connection.vendor == "postgresql":
        from .postgresql import PostgreSQL

        return PostgreSQL(connection)
    if connection.vendor == "sqlite":
        from .sqlite import SQLite

        return SQLite(connection)
    if connection.vendor == "mysql":
        from .mysql import MySQL

        return MySQL(connection)
    raise ImproperlyConfigured(f"djqueue runs on PostgreSQL, SQLite and MariaDB, not on {connection.vendor}")
