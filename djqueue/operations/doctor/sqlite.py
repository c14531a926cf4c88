"""What only SQLite has. Its transaction mode and timeout are settings, and a system check looks at them."""

from __future__ import annotations

from collections.abc import Iterator

from djqueue.operations.codes import Code
from djqueue.operations.findings import Finding, Severity, Subject
from djqueue.sql import Statements


def journal(database: Statements) -> Iterator[Finding]:
    """Report a file that is not in WAL mode."""
    if database.connection.vendor != "sqlite":
        return
    mode = database.fetch("PRAGMA journal_mode")[0][0]
    if mode not in ("wal", "memory"):
        yield Finding(
            code=Code.SQLITE_JOURNAL,
            severity=Severity.WARNING,
            text=f"The SQLite database {database.alias!r} has the journal mode {mode.upper()}: readers and the worker "
            "block each other.",
            remedy='Add "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL" to its OPTIONS, and do '
            "not keep the file on a network drive.",
            subject=Subject.DATABASE,
            key=database.alias,
        )
