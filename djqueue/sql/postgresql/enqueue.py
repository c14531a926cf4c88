"""Insert jobs: one, several, or many by COPY, and the kv of a new job."""

from __future__ import annotations

from collections.abc import Sequence

from djqueue.core.records import NewJob
from djqueue.sql.columns import GIVEN, KEPT, RETURNED_BY_INSERT, postgresql_types

from .arrays import given, listed

INSERT_COLUMNS = postgresql_types(NewJob, leave_out=["own_id"])
_KEPT = ", ".join(KEPT)
COPY = f"COPY djqueue_job ({', '.join(GIVEN)}, enqueued_at, run_at, status) FROM STDIN"


def insert_sql(given: str) -> str:
    return f"""
    INSERT INTO djqueue_job AS j ({", ".join(GIVEN)}, enqueued_at, run_at, status)
    SELECT {", ".join(f"g.{name}" for name in GIVEN)},
           statement_timestamp() + g.place * interval '1 second', due.run_at,
           CASE WHEN due.run_at <= statement_timestamp() THEN 'pending' ELSE 'scheduled' END
    FROM {given},
         LATERAL (SELECT COALESCE(g.run_at, statement_timestamp() + g.delay * interval '1 second')) AS due(run_at)
    """


def taken_sql(tables: Sequence[str]) -> str:
    """Return a query for ids in these tables. A NULL among them means that the snapshot is older than the statement."""
    found = [f"SELECT id FROM {table} WHERE id = ANY(%s::uuid[])" for table in tables]
    return " UNION ALL ".join(
        [*found, "SELECT NULL WHERE current_setting('transaction_isolation') <> 'read committed'"]
    )


def lock_keys_sql(wake: str) -> str:
    """Return a query that locks the jobs that hold the keys, in the order of their ids, as every statement does.

    A key that was released during the wait is left out, by a condition that does not suggest the partial index of all
    keys to the planner.
    """
    return f"""
    WITH keyed AS MATERIALIZED (
        SELECT j.id FROM unnest(%s::text[], %s::text[]) AS k(queue, dedup_key) CROSS JOIN LATERAL (
            SELECT id FROM djqueue_job WHERE queue = k.queue AND dedup_key = k.dedup_key OFFSET 0
        ) j
    ), hit AS MATERIALIZED (
        SELECT {RETURNED_BY_INSERT} FROM djqueue_job j
        WHERE {listed("keyed")} AND num_nulls(dedup_key) = 0
        ORDER BY id FOR UPDATE
    )
    SELECT {RETURNED_BY_INSERT} {wake} FROM hit j
    """


INSERT = insert_sql(given(INSERT_COLUMNS, "g"))
INSERT_ONE = insert_sql(
    f"(VALUES ({', '.join(f'%s::{kind}' for _, kind in INSERT_COLUMNS)})) "
    f"AS g({', '.join(name for name, _ in INSERT_COLUMNS)})"
)
# Writing the key to itself locks the job that holds it until the caller's transaction ends.
LOCK_HIT = "ON CONFLICT (queue, dedup_key) WHERE dedup_key IS NOT NULL DO UPDATE SET dedup_key = EXCLUDED.dedup_key"
# An id that the caller chose may be in use in any of the three tables. A conflict must not raise, because that would
# leave the caller's transaction unusable.
SKIP_TAKEN = "ON CONFLICT DO NOTHING"
# Only an insert detects rows that are newer than the snapshot: it raises a serialization failure. The inserted rows
# are deleted again.
ENTER_HISTORY = f"""
    WITH done AS (
        INSERT INTO djqueue_donejob ({_KEPT}, status, completed_at)
        SELECT {_KEPT}, 'done', statement_timestamp() FROM djqueue_job WHERE id = ANY(%s::uuid[])
        ON CONFLICT (id) DO NOTHING
    )
    INSERT INTO djqueue_deadjob ({_KEPT}) SELECT {_KEPT} FROM djqueue_job WHERE id = ANY(%s::uuid[])
    ON CONFLICT (id) DO NOTHING
"""
LEAVE_HISTORY = """
    WITH done AS (DELETE FROM djqueue_donejob WHERE id = ANY(%s::uuid[]))
    DELETE FROM djqueue_deadjob WHERE id = ANY(%s::uuid[])
"""
KV_OF_NEW = """
    INSERT INTO djqueue_kv (key, value, updated_at)
    SELECT k.key, k.value, statement_timestamp()
    FROM unnest(%s::text[], %s::text[]) AS k(key, value)
    WHERE (SELECT id FROM new) = %s::uuid
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, updated_at = EXCLUDED.updated_at, expires_at = NULL
"""
