"""What only MariaDB has."""

from __future__ import annotations

from collections.abc import Iterator

from djqueue.conf import config
from djqueue.operations.codes import Code
from djqueue.operations.findings import Finding, Severity, Subject
from djqueue.sql import Statements

# Escaped quotes make a payload up to twice as long; the other columns of its row need less than this.
OTHER_COLUMNS = 64 * 1024


def variables(database: Statements) -> Iterator[Finding]:
    """Report variables of the session under which jobs are refused, or enqueuers wait for each other."""
    if database.connection.vendor != "mysql":
        return
    isolation, packet = database.fetch("SELECT @@tx_isolation, @@max_allowed_packet")[0]
    if isolation != "READ-COMMITTED":
        yield Finding(
            code=Code.MYSQL_ISOLATION,
            severity=Severity.WARNING,
            text=f"The isolation level of the database {database.alias!r} is {isolation}: djqueue sends one more "
            "statement per transaction, and your own transactions that enqueue jobs may lock gaps and wait for each "
            "other.",
            remedy='Set "isolation_level": "read committed" in its OPTIONS.',
            subject=Subject.DATABASE,
            key=database.alias,
        )
    largest = 2 * config().max_payload_size + OTHER_COLUMNS
    if int(packet) < largest:
        yield Finding(
            code=Code.MYSQL_PACKET,
            severity=Severity.WARNING,
            text=f"max_allowed_packet is {int(packet):,} bytes, but a job of MAX_PAYLOAD_SIZE "
            f"({config().max_payload_size:,} bytes) may need {largest:,}.",
            remedy="Raise max_allowed_packet of the server, or lower DJQUEUE['MAX_PAYLOAD_SIZE'].",
            subject=Subject.SETTINGS,
            key="MAX_PAYLOAD_SIZE",
        )
