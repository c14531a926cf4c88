"""Cancel, requeue, reschedule, put back."""

from __future__ import annotations

from functools import cache

from djqueue import channels
from djqueue.sql.base import KEPT, NOT_IN_JOB, RECORD_COLUMNS, REVIVED

from .pieces import given, upsert


@cache
def cancel_sql(notify: bool) -> str:
    """The row is locked before its state is looked at: a claim that is being committed is waited for."""
    kept = ", ".join(KEPT)
    absent = {"status": "'cancelled'", "lease_expires_at": "NULL", "completed_at": "statement_timestamp()"}
    record = ", ".join(absent.get(name, "NULL" if name == "result" else f"g.{name}") for name in RECORD_COLUMNS)
    wake = f", CASE WHEN g.id IS NOT NULL THEN pg_notify('{channels.ENDED}', '') END"
    return f"""
    WITH locked AS MATERIALIZED (
        SELECT id, status FROM djqueue_job WHERE id = ANY(%s::uuid[]) ORDER BY id FOR UPDATE
    ), asked AS (
        UPDATE djqueue_job j SET cancel_requested = true FROM locked l WHERE j.id = l.id AND l.status = 'claimed'
    ), gone AS (
        DELETE FROM djqueue_job j USING locked l WHERE j.id = l.id AND l.status <> 'claimed'
        RETURNING {", ".join(f"j.{name}" for name in KEPT)}
    ), kept AS (
        INSERT INTO djqueue_donejob ({kept}, status, completed_at)
        SELECT {kept}, 'cancelled', statement_timestamp() FROM gone WHERE (queue = ANY(%s::text[])) <> %s::bool
        ON CONFLICT (id) DO UPDATE SET {upsert([*KEPT, "status", "completed_at"])}, result = NULL
    ), counted AS (
        INSERT INTO djqueue_throughput (minute, queue, task, wait_bucket, run_bucket, cancelled)
        SELECT date_trunc('minute', statement_timestamp()), queue, task, 0, 0, count(*) FROM gone GROUP BY queue, task
    )
    SELECT l.id, g.id IS NOT NULL, {record} {wake if notify else ""} FROM locked l LEFT JOIN gone g ON g.id = l.id
    """


REQUEUE_COLUMNS = [("id", "uuid"), ("args", "text"), ("kwargs", "text"), ("run_at", "timestamptz")]

# What it returns is a record of the new row; each line of its errors is marked, once.
REQUEUE = f"""
    WITH gone AS (
        DELETE FROM djqueue_deadjob d USING {given(REQUEUE_COLUMNS, "g")}
        WHERE d.id = g.id AND NOT EXISTS (SELECT FROM djqueue_job j WHERE j.id = d.id)
        RETURNING {", ".join(f"d.{name}" for name in REVIVED)},
            COALESCE(g.args, d.args) AS args,
            COALESCE(g.kwargs, d.kwargs) AS kwargs,
            regexp_replace(d.errors, '^\\{{(?!"before_requeue")', '{{"before_requeue":true,', 'gn') AS errors,
            COALESCE(g.run_at, statement_timestamp()) AS run_at
    )
    INSERT INTO djqueue_job AS j ({", ".join(REVIVED)}, args, kwargs, errors, run_at, status)
    SELECT {", ".join(REVIVED)}, args, kwargs, errors, run_at,
           CASE WHEN run_at <= statement_timestamp() THEN 'pending' ELSE 'scheduled' END
    FROM gone
    RETURNING {", ".join(NOT_IN_JOB.get(name, f"j.{name}") for name in RECORD_COLUMNS)}
"""

RESCHEDULE = """
    WITH locked AS MATERIALIZED (
        SELECT id FROM djqueue_job WHERE id = ANY(%s::uuid[]) AND status <> 'claimed' ORDER BY id FOR UPDATE
    )
    UPDATE djqueue_job j SET
        priority = COALESCE(%s::int4, j.priority),
        run_at = COALESCE(%s::timestamptz, j.run_at),
        status = CASE WHEN COALESCE(%s::timestamptz, j.run_at) <= statement_timestamp()
                      THEN 'pending' ELSE 'scheduled' END
    FROM locked l WHERE j.id = l.id
    RETURNING j.id
"""

# Looks along djqueue_job_claim, and locks only what it changes: the others may be claimed meanwhile.
PUT_BACK = """
    WITH ahead AS MATERIALIZED (
        SELECT id, task FROM djqueue_job WHERE status = 'pending' AND queue = %s
        ORDER BY priority, enqueued_at, id LIMIT %s
    ), picked AS MATERIALIZED (
        SELECT j.id, GREATEST(%s::float8, LEAST(%s::float8, COALESCE(
            extract(epoch FROM statement_timestamp() - j.unknown_since)::float8, 0))) AS delay
        FROM djqueue_job j JOIN ahead ON j.id = ahead.id
        WHERE ahead.task = ANY(%s) AND j.status = 'pending'
        AND (j.unknown_since IS NULL OR j.unknown_since > statement_timestamp() - interval '1 second' * %s::float8)
        FOR UPDATE OF j SKIP LOCKED
    )
    UPDATE djqueue_job j SET
        status = 'scheduled',
        run_at = statement_timestamp() + interval '1 second' * picked.delay,
        unknown_since = COALESCE(j.unknown_since, statement_timestamp())
    FROM picked WHERE j.id = picked.id
"""
