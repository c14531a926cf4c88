"""What keeps PostgreSQL from removing dead rows: claims have to step over them, and become slower."""

from __future__ import annotations

from collections.abc import Iterator

from djqueue.core.durations import in_words
from djqueue.sql import Statements
from djqueue.sql.postgresql import sessions

from .codes import Code
from .findings import Finding, Severity, Subject

# A session may hold back cleaning for so long; transactions count where the time is not known.
SECONDS, TRANSACTIONS = 300.0, 100_000
MOST = 10
REMEDIES = {
    "session": "End the transaction in its application, or run SELECT pg_terminate_backend({name}). Set "
    "idle_in_transaction_session_timeout so that it does not happen again.",
    "prepared transaction": "Run COMMIT PREPARED '{name}' or ROLLBACK PREPARED '{name}'.",
    "replication slot": "Start its consumer again, or run SELECT pg_drop_replication_slot('{name}') if it is gone.",
}


def findings(database: Statements, seconds: float = SECONDS, transactions: int = TRANSACTIONS) -> Iterator[Finding]:
    """Report what keeps PostgreSQL from removing dead rows; other databases have no such list."""
    if database.connection.vendor != "postgresql":
        return
    for holder in sessions.holders(database, seconds, transactions, MOST):
        known = in_words(holder.seconds) if holder.seconds is not None else f"{holder.transactions:,} transactions"
        details = [
            f"user {holder.user}" * bool(holder.user),
            f"application {holder.application}" * bool(holder.application),
        ]
        details += [holder.state, f"query {holder.query}" * bool(holder.query)]
        yield Finding(
            code=Code.LONG_TRANSACTION,
            severity=Severity.WARNING,
            text=f"The {holder.kind} {holder.name} ({'; '.join(filter(None, details))}) has held back the removal of "
            f"dead rows for {known}: claims become slower.",
            remedy=REMEDIES[holder.kind].format(name=holder.name.replace("'", "''")),
            subject=Subject.DATABASE,
            key=database.alias,
        )
