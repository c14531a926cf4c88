"""Statements that the ORM cannot express, one class per database, chosen by the vendor of the connection."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from djqueue.conf import config
from djqueue.core.async_twins import refuse_event_loop

from .contract import Statements as Statements


def statements(alias: str | None = None) -> Statements:
    """Return the statements for the queue's database, on this thread's connection. Raise in an async context."""
    refuse_event_loop()
    return statements_on(connections[alias or config().database])


def statements_on(connection: BaseDatabaseWrapper) -> Statements:
    """Return the statements for the database that a connection leads to."""
    # Imported late: they need the models, and tasks may be declared before these are loaded.
    if connection.vendor == "postgresql":
        from djqueue.sql.postgresql.statements import PostgreSQL

        return PostgreSQL(connection)
    if connection.vendor == "sqlite":
        from .sqlite import SQLite

        return SQLite(connection)
    if connection.vendor == "mysql":
        from .mysql import MySQL

        return MySQL(connection)
    raise ImproperlyConfigured(f"djqueue supports PostgreSQL, SQLite and MariaDB, got {connection.vendor}.")
