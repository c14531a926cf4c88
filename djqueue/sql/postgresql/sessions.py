"""Sessions of PostgreSQL that hold back the cleaning of dead rows."""

from __future__ import annotations

from typing import NamedTuple

from djqueue.sql.contract import Statements


class Holder(NamedTuple):
    kind: str  # session, prepared transaction or replication slot
    name: str  # the pid, the global id, or the name of the slot
    user: str
    application: str
    state: str
    query: str  # its beginning; empty if this role may not see it
    seconds: float | None  # None if unknown
    transactions: int  # how many have begun since the oldest snapshot that it holds


# Only rows that were deleted after the oldest snapshot (backend_xmin) or transaction (backend_xid) are kept: a session
# that is idle in a READ COMMITTED transaction which only reads holds nothing back. VACUUM ignores other VACUUMs.
# Without the role pg_read_all_stats, xact_start and query of other users' sessions are NULL, and their age is known in
# transactions only; so is that of a replication slot.
HOLDERS = """
    SELECT * FROM (
        SELECT 'session', pid::text, COALESCE(usename, ''), COALESCE(application_name, ''), COALESCE(state, ''),
               CASE WHEN xact_start IS NULL THEN '' ELSE left(regexp_replace(query, '\\s+', ' ', 'g'), 60) END,
               extract(epoch FROM statement_timestamp() - xact_start)::float8 AS seconds,
               GREATEST(COALESCE(age(backend_xmin), 0), COALESCE(age(backend_xid), 0)) AS transactions
        FROM pg_stat_activity
        WHERE (datname = current_database() OR datname IS NULL) AND pid <> pg_backend_pid()
          AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
          AND COALESCE(backend_type, '') <> 'autovacuum worker' AND query NOT ILIKE 'vacuum%%'
        UNION ALL
        SELECT 'prepared transaction', gid, owner::text, '', 'prepared', '',
               extract(epoch FROM statement_timestamp() - prepared)::float8, age(transaction)
        FROM pg_prepared_xacts WHERE database = current_database()
        UNION ALL
        SELECT 'replication slot', slot_name::text, '', COALESCE(plugin::text, ''),
               CASE WHEN active THEN 'active' ELSE 'inactive' END, '', NULL, age(xmin)
        FROM pg_replication_slots WHERE xmin IS NOT NULL
    ) holder
    WHERE seconds > %s OR (seconds IS NULL AND transactions > %s)
    ORDER BY transactions DESC, seconds DESC NULLS LAST LIMIT %s
"""


def holders(database: Statements, seconds: float, transactions: int, limit: int) -> list[Holder]:
    """Return what has held back cleaning for so many seconds, or transactions if its time is not known."""
    return [Holder(*row) for row in database.fetch(HOLDERS, [seconds, transactions, limit])]
