"""What only PostgreSQL has: dead rows and notifications."""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps

from djqueue.conf import config
from djqueue.core.durations import in_words
from djqueue.operations.codes import Code
from djqueue.operations.findings import Finding, Severity, Subject
from djqueue.sql import Statements
from djqueue.waiting.wakeup_sources import Listen

# A table has too many dead rows if there are so many, more than live ones, and no VACUUM ended for so many seconds:
# a busy queue makes thousands between two runs of autovacuum.
DEAD_ROWS, NOT_CLEANED_FOR = 100_000, 900.0
TABLES = """
    SELECT relname, n_dead_tup, n_live_tup,
           extract(epoch FROM statement_timestamp() - GREATEST(last_vacuum, last_autovacuum))::float8
    FROM pg_stat_user_tables
    WHERE relid IN (SELECT oid FROM pg_class WHERE relname = ANY(%s) AND pg_table_is_visible(oid))
      AND n_dead_tup > %s AND n_dead_tup > n_live_tup
    ORDER BY n_dead_tup DESC
"""
# A loaded server may be late with one notification.
LISTEN_TRIES = 2


def dead_rows(database: Statements, rows: int = DEAD_ROWS, seconds: float = NOT_CLEANED_FOR) -> Iterator[Finding]:
    """Report tables whose dead rows are not removed."""
    if database.connection.vendor != "postgresql":
        return
    names = [model._meta.db_table for model in apps.get_app_config("djqueue").get_models()]
    for table, dead, live, ago in database.fetch(TABLES, [names, rows]):
        if ago is None or ago >= seconds:
            cleaned = "never" if ago is None else f"{in_words(ago)} ago"
            yield Finding(
                code=Code.DEAD_ROWS,
                severity=Severity.WARNING,
                text=f"The table {table} has {dead:,} dead rows beside {live:,} live ones; its last VACUUM was "
                f"{cleaned}. Claims have to step over dead rows.",
                remedy="Look for a long transaction, and check that autovacuum is on and not too slow "
                f"(autovacuum_vacuum_cost_limit). Run VACUUM {table} to remove them now.",
                subject=Subject.DATABASE,
                key=database.alias,
            )


def notifications(database: Statements) -> Iterator[Finding]:
    """Listen as a worker does, notify from another session, and report if nothing arrives."""
    if database.connection.vendor != "postgresql" or not config().notify:
        return
    listens_at = config().listen_database or database.alias
    for _ in range(LISTEN_TRIES):
        source = Listen(listens_at, -1)
        try:
            if source.works(database.alias):
                return
        finally:
            source.close()
    yield Finding(
        code=Code.LISTEN_DEAF,
        severity=Severity.WARNING,
        text=f"Notifications do not arrive at the connection to {listens_at!r}, so workers poll every "
        f"{config().poll_interval:g} s. A connection pooler in transaction mode does not pass them on.",
        remedy="Add an alias to DATABASES that leads to the same database past the pooler, and set "
        "DJQUEUE['LISTEN_DATABASE'] to it.",
        subject=Subject.SETTINGS,
        key="LISTEN_DATABASE",
    )
