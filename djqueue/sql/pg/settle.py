"""Settle leased jobs, or take them back when their lease is over."""

from __future__ import annotations

from functools import cache

from djqueue import channels
from djqueue.sql.base import BUCKETS, KEPT, MAX_ERRORS, MAX_RETURNS

from .pieces import given_with_constants, upsert

SETTLE_COLUMNS = [
    ("id", "uuid"),
    ("token", "uuid"),
    ("verdict", "text"),
    ("keep_done", "bool"),
    ("result", "text"),
    ("error", "text"),
    ("entry", "text"),
    ("delay", "float8"),
    ("final", "bool"),
    ("crashed", "bool"),
    ("unknown", "bool"),
    ("wait", "float8"),
    ("run", "float8"),
]
MOVED = [name for name in KEPT if name not in ("failed_at", "last_error", "errors")]


@cache
def settle_sql(*, reaping: bool, notify: bool, varying: tuple[str, ...]) -> str:
    """All verdicts in one statement, found by primary key and token alone.

    With `AND status = 'claimed'` the planner would walk the partial index of claimed rows with all its dead entries.
    Rows are locked in the order of their ids, so that two settlements, or one and a bulk act, cannot deadlock.
    """
    guard = "AND j.lease_expires_at <= statement_timestamp()" if reaping else ""
    lock = "FOR UPDATE OF j SKIP LOCKED" if reaping else "FOR UPDATE OF j"
    wake = f""", CASE
        WHEN outcome IN ('done', 'dead', 'cancelled') THEN pg_notify('{channels.ENDED}', '')
        WHEN delay > 0 THEN pg_notify('{channels.SCHEDULED}', '')
        ELSE pg_notify('{channels.PENDING}', queue) END"""
    errors = f"""(CASE WHEN length(j.errors) > {MAX_ERRORS}
                       THEN substr(j.errors, strpos(j.errors, E'\\n') + 1) ELSE j.errors END || h.entry)"""
    failure = f"""
        CASE WHEN h.entry <> '' THEN statement_timestamp() ELSE j.failed_at END AS failed_at,
        CASE WHEN h.entry <> '' THEN h.error ELSE j.last_error END AS last_error,
        CASE WHEN h.entry <> '' THEN {errors} ELSE j.errors END AS errors"""
    moved = ", ".join(MOVED)
    done_columns = [*KEPT, "status", "completed_at", "result"]
    return f"""
    WITH held AS MATERIALIZED (
        SELECT g.*, j.queue, j.task, j.attempts,
            CASE g.verdict
                WHEN 'ack' THEN 'done'
                WHEN 'cancel' THEN 'cancelled'
                WHEN 'dead_letter' THEN 'dead'
                WHEN 'snooze' THEN 'snoozed'
                WHEN 'release' THEN 'released'
                WHEN 'reap' THEN
                    CASE WHEN NOT j.started AND j.returns < {MAX_RETURNS} THEN 'released'
                         WHEN g.final OR j.attempts >= j.max_attempts THEN 'dead' ELSE 'retrying' END
                ELSE
                    CASE WHEN j.cancel_requested THEN 'cancelled'
                         WHEN g.final OR j.attempts >= j.max_attempts THEN 'dead' ELSE 'retrying' END
            END AS outcome
        FROM {given_with_constants(SETTLE_COLUMNS, varying, "g")}
        JOIN djqueue_job j ON j.id = g.id AND j.token = g.token {guard}
        ORDER BY j.id
        {lock}
    ), returned AS (
        UPDATE djqueue_job j SET
            status = CASE WHEN h.delay > 0 THEN 'scheduled' ELSE 'pending' END,
            run_at = CASE WHEN h.outcome = 'released' THEN j.run_at
                          ELSE statement_timestamp() + h.delay * interval '1 second' END,
            token = NULL,
            worker = '',
            claimed_at = NULL,
            lease_expires_at = NULL,
            attempts = j.attempts - (h.outcome <> 'retrying')::int,
            worker_ids = CASE WHEN h.outcome = 'retrying' THEN j.worker_ids
                              ELSE left(j.worker_ids, length(j.worker_ids) - length(j.worker) - 1) END,
            started_at = CASE WHEN NOT j.started AND h.outcome <> 'retrying' AND j.attempts = 1
                              THEN NULL ELSE j.started_at END,
            started = false,
            returns = j.returns + (h.verdict = 'reap' AND h.outcome = 'released')::int,
            crashes = CASE WHEN h.crashed THEN j.crashes + 1
                           WHEN h.verdict IN ('nack', 'snooze') AND NOT h.unknown THEN 0 ELSE j.crashes END,
            unknown_since = CASE WHEN h.unknown THEN COALESCE(j.unknown_since, statement_timestamp())
                                 WHEN h.outcome = 'released' THEN j.unknown_since END,
            failed_at = CASE WHEN h.outcome = 'retrying' THEN statement_timestamp() ELSE j.failed_at END,
            last_error = CASE WHEN h.outcome = 'retrying' THEN h.error ELSE j.last_error END,
            errors = CASE WHEN h.outcome = 'retrying' THEN {errors} ELSE j.errors END
        FROM held h
        WHERE j.id = h.id AND h.outcome IN ('retrying', 'snoozed', 'released')
    ), gone AS (
        DELETE FROM djqueue_job j USING held h
        WHERE j.id = h.id AND h.outcome IN ('done', 'dead', 'cancelled')
        RETURNING {", ".join(f"j.{name}" for name in MOVED)}, {failure}, h.outcome, h.keep_done, h.result
    ), kept AS (
        INSERT INTO djqueue_donejob ({moved}, failed_at, last_error, errors, status, completed_at, result)
        SELECT {moved}, failed_at, last_error, errors, outcome, statement_timestamp(), result
        FROM gone WHERE outcome <> 'dead' AND keep_done
        ON CONFLICT (id) DO UPDATE SET {upsert(done_columns)}
    ), buried AS (
        INSERT INTO djqueue_deadjob ({moved}, failed_at, last_error, errors)
        SELECT {moved}, failed_at, last_error, errors FROM gone WHERE outcome = 'dead'
        ON CONFLICT (id) DO UPDATE SET {upsert(KEPT)}
    ), counted AS (
        INSERT INTO djqueue_throughput
            (minute, queue, task, wait_bucket, run_bucket, done, failed, dead, cancelled, wait_sum, run_sum)
        SELECT date_trunc('minute', statement_timestamp()), queue, task,
               width_bucket(wait, ARRAY{list(map(float, BUCKETS))}::float8[]),
               width_bucket(run, ARRAY{list(map(float, BUCKETS))}::float8[]),
               count(*) FILTER (WHERE outcome = 'done'),
               count(*) FILTER (WHERE entry <> '' AND outcome <> 'cancelled'),
               count(*) FILTER (WHERE outcome = 'dead'),
               count(*) FILTER (WHERE outcome = 'cancelled'),
               sum(wait), sum(run)
        FROM held WHERE outcome NOT IN ('snoozed', 'released')
        GROUP BY 2, 3, 4, 5
    )
    SELECT id, outcome, attempts {wake if notify else ""} FROM held
    """
