"""The doctor: a thorough look at settings, database, queues and workers.

It takes no locks and changes no data. It sends one notification, as every worker does when it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, InterfaceError

from djqueue.conf import config
from djqueue.operations import attention
from djqueue.operations.bounded import bounded_connection, hung_up_after
from djqueue.operations.codes import Code
from djqueue.operations.findings import Finding, Severity, Subject
from djqueue.sql import Statements, statements

from . import jobs, mysql, postgresql, server, settings, sqlite, tables, upkeep

Look = Callable[[Statements], Iterable[Finding]]

# What is looked at, in this order, once the database has answered and its tables exist.
LOOKS: dict[str, Look] = {
    "what needs attention": lambda database: attention.findings(),
    "indexes": tables.indexes,
    "clocks": server.clocks,
    "connections": server.connections,
    "dead rows": postgresql.dead_rows,
    "notifications": postgresql.notifications,
    "SQLite": sqlite.journal,
    "MariaDB": mysql.variables,
    "running jobs": jobs.long_running,
    "leases": upkeep.leases,
    "retention": upkeep.retention,
    "counts": upkeep.counts,
}
# Seconds after which the statement of a look is cancelled, or the connection closed if that fails.
LOOK_WITHIN = 20.0


def examine(progress: Callable[[str], None] = lambda name: None) -> list[Finding]:
    """Return everything that is wrong, most severe first. `progress` is called with the name of each look.

    A look that fails is a finding itself.
    """
    progress("settings")
    found = list(settings.system_checks(database=None))
    try:
        alias = config().database
        with bounded_connection(alias):
            database = statements()
            database.fetch("SELECT 1")
            found = list(settings.system_checks(database=alias))
            progress("tables")
            missing = list(_looked("tables", tables.tables, database))
            found += missing
            if not any(finding.code == Code.MIGRATION_MISSING for finding in missing):
                for name, look in LOOKS.items():
                    progress(name)
                    found += _looked(name, look, database)
    except ImproperlyConfigured:
        pass  # a system check has reported it
    except (DatabaseError, InterfaceError) as error:
        found.append(unreachable(alias, error))
    return attention.by_severity(found)


def unreachable(alias: str, error: Exception) -> Finding:
    return Finding(
        code=Code.UNREACHABLE,
        severity=Severity.ERROR,
        text=f"The database {alias!r} does not answer: {first_line(error)}.",
        remedy=f"Start the server, or correct DATABASES[{alias!r}]. Nothing else of the database was looked at.",
        subject=Subject.DATABASE,
        key=alias,
    )


def _looked(name: str, look: Look, database: Statements) -> list[Finding]:
    try:
        with hung_up_after(LOOK_WITHIN, database.connection, database.interrupt):
            return list(look(database))
    except Exception as error:  # of any kind: the other looks must follow
        if not database.connection.is_usable():
            database.connection.close()
        return [
            Finding(
                code=Code.CHECK_FAILED,
                severity=Severity.WARNING,
                text=f"The doctor could not look at {name}: {type(error).__name__}: {first_line(error)}.",
                remedy="Grant the database user what is missing, or look again when the server is less busy.",
                subject=Subject.DATABASE,
                key=database.alias,
            )
        ]


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
