"""The database of the queue, and the workers that its tables list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, Warning  # noqa: A004
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.sqlite3.base import DatabaseWrapper as SQLiteWrapper

from djqueue.core import registry
from djqueue.lifecycle.enqueue import DEFAULT_QUEUE
from djqueue.sql import statements
from djqueue.worker.databases import pool_problem
from djqueue.worker.options import Options

from .base import DATABASE, SETTINGS, import_tasks, queue_connection, register
from .tasks import queues_of_tasks_setting

SQLITE_TIMEOUT = 20  # seconds to wait for SQLite's lock
SQLITE_VERSION = (3, 35)  # the first with RETURNING
MARIADB_VERSION = (10, 6)  # the first with SKIP LOCKED
VENDORS = ("postgresql", "sqlite", "mysql")


@register("djqueue", SETTINGS)
def check_database(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report a database that is not supported."""
    if (connection := queue_connection()) is None or connection.vendor in VENDORS:
        return []
    return [
        Error(
            f"djqueue supports PostgreSQL, SQLite and MariaDB, but DATABASES[{connection.alias!r}] is "
            f"{connection.vendor!r}.",
            hint="Set DJQUEUE['DATABASE'] to the alias of a supported database.",
            id="djqueue.E005",
        )
    ]


@register(DATABASE, Tags.database)
def check_database_abilities(
    app_configs: Sequence[AppConfig] | None, databases: Iterable[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Report a database server that is too old, or that cannot be written to."""
    connection = queue_connection()
    if connection is None or connection.alias not in (databases or ()):
        return []
    try:
        missing = list(_missing_abilities(connection))
    except (DatabaseError, ImproperlyConfigured):
        return []  # the database cannot be reached, which the command reports itself
    return [
        Error(f"The database {connection.alias!r} {problem}.", hint=hint, id="djqueue.E012")
        for problem, hint in missing
    ]


def _missing_abilities(connection: BaseDatabaseWrapper) -> Iterator[tuple[str, str]]:
    """Return what the server lacks, and the remedy."""
    if isinstance(connection, SQLiteWrapper):
        version: tuple[int, ...] = connection.Database.sqlite_version_info
        if version < SQLITE_VERSION:
            yield f"is SQLite {_dotted(version)}, which has no RETURNING", "Use SQLite 3.35 or newer."
    elif connection.vendor == "mysql":
        version = connection.mysql_version  # type: ignore[attr-defined]
        if not connection.mysql_is_mariadb:  # type: ignore[attr-defined]
            yield f"is MySQL {_dotted(version)}, which has no INSERT … RETURNING", "Use MariaDB 10.6 or newer."
        elif version < MARIADB_VERSION:
            yield f"is MariaDB {_dotted(version)}, which has no SKIP LOCKED", "Use MariaDB 10.6 or newer."
        if not connection.features.supports_transactions:
            yield "uses a storage engine without transactions", "Set default_storage_engine = InnoDB in the server."
    elif connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean")
            if cursor.fetchone()[0]:
                yield "is read-only", "Set DJQUEUE['DATABASE'] to the alias of the primary, not of a replica."


def _dotted(version: Iterable[int]) -> str:
    return ".".join(map(str, version))


@register("djqueue", SETTINGS)
def check_sqlite(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Warn about SQLite options under which writers get the error "database is locked" while a worker runs."""
    connection = queue_connection()
    if not isinstance(connection, SQLiteWrapper) or connection.is_in_memory_db():
        return []
    options = _options(connection)
    timeout = options.get("timeout")
    waits = isinstance(timeout, int | float) and timeout >= SQLITE_TIMEOUT
    if waits and options.get("transaction_mode") == "IMMEDIATE":
        return []
    return [
        Warning(
            f'The SQLite database {connection.alias!r} may raise "database is locked" while a worker runs.',
            hint=f'Set its OPTIONS to {{"transaction_mode": "IMMEDIATE", "timeout": {SQLITE_TIMEOUT}, '
            '"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"}.',
            id="djqueue.W003",
        )
    ]


def _options(connection: BaseDatabaseWrapper) -> dict[str, Any]:
    options = connection.settings_dict.get("OPTIONS")
    return options if isinstance(options, dict) else {}


@register("djqueue")
def check_pool(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Warn about a connection pool that is smaller than the number of threads of a worker."""
    connection = queue_connection()
    if connection is None or (problem := pool_problem(connection, Options().threads)) is None:
        return []
    return [Warning(problem, hint="Set max_size to the number of threads, or start fewer threads.", id="djqueue.W010")]


@register(DATABASE, Tags.database)
def check_consumers(
    app_configs: Sequence[AppConfig] | None, databases: Iterable[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Warn about queues of tasks and of TASKS from which no worker claims, while others are running."""
    connection = queue_connection()
    if connection is None or connection.alias not in (databases or ()) or import_tasks() is not None:
        return []
    from djqueue.sql.workers import claims_from

    consumed = _consumed_queues(connection)
    in_use = {task.options.queue or DEFAULT_QUEUE: f"task {task.name}" for task in registry.all_tasks()}
    return [
        Warning(
            f"No worker consumes the queue {queue!r} ({where}); {len(consumed)} workers are running.",
            hint=f"Start a worker with --queue {queue}, or one without --queue and --exclude.",
            id="djqueue.W012",
        )
        for queue, where in sorted((in_use | queues_of_tasks_setting()).items())
        if consumed and not any(claims_from(stored, queue) for stored in consumed)
    ]


def _consumed_queues(connection: BaseDatabaseWrapper) -> list[Any]:
    """Return, for each running worker, the stored form of the queues that it claims from."""
    from djqueue.models import Worker
    from djqueue.sql.workers import claiming

    try:
        if Worker._meta.db_table not in connection.introspection.table_names():
            return []  # before the first migration
        return list(claiming(statements()).values_list("queues", flat=True))
    except DatabaseError:
        return []  # the database cannot be reached, which the command reports itself
