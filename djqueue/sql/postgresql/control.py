"""Cancel, requeue, reschedule, put back."""

from __future__ import annotations

from functools import cache

from djqueue.core import channels
from djqueue.core.records import Requeue
from djqueue.sql.columns import KEPT, NOT_IN_JOB, RECORD, REVIVED, postgresql_types

from .arrays import ANY_PLACE, given, listed, status_at, upsert


@cache
def cancel_sql(notify: bool) -> str:
    """Return the statement. It locks a row before it reads its status, and so waits for a claim that commits."""
    kept = ", ".join(KEPT)
    absent = {"status": "'cancelled'", "lease_expires_at": "NULL", "completed_at": "statement_timestamp()"}
    record = ", ".join(absent.get(name, "NULL" if name == "result" else f"g.{name}") for name in RECORD)
    wake = f", pg_notify('{channels.ENDED}', '')"
    return f"""
    WITH locked AS MATERIALIZED (
        SELECT id, status FROM djqueue_job WHERE id = ANY(%s::uuid[]) ORDER BY id FOR UPDATE
    ), asked AS (
        UPDATE djqueue_job j SET cancel_requested = true WHERE {listed("locked WHERE status = 'claimed'")}
        RETURNING j.id
    ), gone AS (
        DELETE FROM djqueue_job j WHERE {listed("locked WHERE status <> 'claimed'")}
        RETURNING {", ".join(f"j.{name}" for name in KEPT)}
    ), kept AS (
        INSERT INTO djqueue_donejob ({kept}, status, completed_at)
        SELECT {kept}, 'cancelled', statement_timestamp() FROM gone WHERE COALESCE(
            (SELECT k.keep FROM unnest(%s::text[], %s::bool[]) AS k(queue, keep) WHERE k.queue = gone.queue), %s::bool)
        ON CONFLICT (id) DO UPDATE SET {upsert([*KEPT, "status", "completed_at"])}, result = NULL
    ), counted AS (
        INSERT INTO djqueue_throughput (minute, queue, task, wait_bucket, run_bucket, cancelled)
        SELECT date_trunc('minute', statement_timestamp()), queue, task, 0, 0, count(*) FROM gone GROUP BY queue, task
    )
    SELECT true, {record} {wake if notify else ""} FROM gone g
    UNION ALL
    SELECT false, id {", NULL" * (len(RECORD) - 1 + notify)} FROM asked
    """


REQUEUE_COLUMNS = postgresql_types(Requeue)

# Returns a record of the new row. Each line of its errors is marked, once.
REQUEUE = f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM {given(REQUEUE_COLUMNS, "g")}
    ), live AS MATERIALIZED (
        SELECT j.id FROM djqueue_job j WHERE {listed("given")}
    ), gone AS (
        DELETE FROM djqueue_deadjob d USING given g
        WHERE d.id = g.id AND d.id = ANY(ARRAY(SELECT id FROM given WHERE id NOT IN (SELECT id FROM live)))
        RETURNING {", ".join(f"d.{name}" for name in REVIVED)},
            COALESCE(g.args, d.args) AS args,
            COALESCE(g.kwargs, d.kwargs) AS kwargs,
            regexp_replace(d.errors, '^\\{{(?!"before_requeue")', '{{"before_requeue":true,', 'gn') AS errors,
            COALESCE(g.run_at, statement_timestamp()) AS run_at
    )
    INSERT INTO djqueue_job AS j ({", ".join(REVIVED)}, args, kwargs, errors, run_at, status)
    SELECT {", ".join(REVIVED)}, args, kwargs, errors, run_at, {status_at("run_at", "limit_key")}
    FROM gone
    RETURNING {", ".join(NOT_IN_JOB.get(name, f"j.{name}") for name in RECORD)}
"""

RESCHEDULE = f"""
    WITH locked AS MATERIALIZED (
        SELECT id FROM djqueue_job WHERE id = ANY(%s::uuid[]) AND status <> 'claimed' ORDER BY id FOR UPDATE
    )
    UPDATE djqueue_job j SET
        priority = COALESCE(%s::int8, j.priority),
        run_at = COALESCE(%s::timestamptz, j.run_at),
        status = CASE WHEN COALESCE(%s::timestamptz, j.run_at) > statement_timestamp() THEN 'scheduled'
                      WHEN j.limit_key IS NULL OR j.status = 'pending' THEN 'pending' ELSE 'blocked' END
    WHERE {listed("locked")}
    RETURNING j.id
"""

# Reads along djqueue_job_claim, and locks only what it changes: the others may be claimed meanwhile. The limit is
# hidden from the planner for the same reason as in PROMOTE.
PUT_BACK = f"""
    WITH ahead AS MATERIALIZED (
        SELECT id, task FROM djqueue_job WHERE status = 'pending' AND queue = %s AND {ANY_PLACE}
        ORDER BY priority, enqueued_at, id LIMIT (SELECT %s::int8)
    ), picked AS MATERIALIZED (
        SELECT j.id FROM djqueue_job j
        WHERE {listed("ahead WHERE task = ANY(%s)")} AND j.status = 'pending'
        AND (j.unknown_since IS NULL OR j.unknown_since > statement_timestamp() - interval '1 second' * %s::float8)
        FOR UPDATE OF j SKIP LOCKED
    )
    UPDATE djqueue_job j SET
        status = 'scheduled',
        run_at = statement_timestamp() + interval '1 second' * GREATEST(%s::float8, LEAST(%s::float8, COALESCE(
            extract(epoch FROM statement_timestamp() - j.unknown_since)::float8, 0))),
        unknown_since = COALESCE(j.unknown_since, statement_timestamp())
    WHERE {listed("picked")}
"""
