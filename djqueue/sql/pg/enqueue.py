"""Insert jobs: one, several, or many by COPY; with the kv that comes along."""

from __future__ import annotations

from djqueue.sql.base import GIVEN, RETURNED_BY_INSERT

from .pieces import given

INSERT_COLUMNS = [
    ("id", "uuid"),
    ("task", "text"),
    ("queue", "text"),
    ("priority", "int4"),
    ("args", "text"),
    ("kwargs", "text"),
    ("headers", "text"),
    ("max_attempts", "int4"),
    ("delay", "float8"),
    ("place", "float8"),
    ("run_at", "timestamptz"),
    ("dedup_key", "text"),
    ("dedup_until", "text"),
    ("retry", "text"),
    ("timeout", "float8"),
    ("lease", "float8"),
    ("schedule", "text"),
    ("slot", "timestamptz"),
]
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


INSERT = insert_sql(given(INSERT_COLUMNS, "g"))
INSERT_ONE = insert_sql(
    f"(VALUES ({', '.join(f'%s::{kind}' for _, kind in INSERT_COLUMNS)})) "
    f"AS g({', '.join(name for name, _ in INSERT_COLUMNS)})"
)
# Writing the key to itself locks the job that holds it until the caller's transaction ends.
LOCK_HIT = "ON CONFLICT (queue, dedup_key) WHERE dedup_key IS NOT NULL DO UPDATE SET dedup_key = EXCLUDED.dedup_key"
LOCK_KEYS = f"""
    SELECT {RETURNED_BY_INSERT} FROM djqueue_job
    WHERE (queue, dedup_key) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
    ORDER BY id FOR UPDATE
"""
# An id that its caller chose may be taken, in any of the three tables; a conflict must not raise, for that would
# leave the caller's transaction unusable.
SKIP_TAKEN = "ON CONFLICT DO NOTHING"
TAKEN = " UNION ALL ".join(
    f"SELECT id FROM {table} WHERE id = ANY(%s::uuid[])"
    for table in ("djqueue_job", "djqueue_donejob", "djqueue_deadjob")
)
KV_OF_NEW = """
    INSERT INTO djqueue_kv (key, value, updated_at)
    SELECT k.key, k.value, statement_timestamp()
    FROM unnest(%s::text[], %s::text[]) AS k(key, value)
    WHERE (SELECT id FROM new) = %s::uuid
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, updated_at = EXCLUDED.updated_at, expires_at = NULL
"""
