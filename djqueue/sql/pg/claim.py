"""Make jobs pending, and take pending ones."""

from __future__ import annotations

from djqueue.sql.base import CLAIMED, CLAIMED_INSTANTS

# Instants come as seconds since the epoch, exact to the microsecond: six datetimes of a row in the driver's text form
# take longer to read than all the rest of it.
RETURNED = ", ".join(
    f"extract(epoch FROM j.{name})::float8" if name in CLAIMED_INSTANTS else f"j.{name}" for name in CLAIMED
)

# One branch per unpaused queue, each a walk along djqueue_job_claim that ends at its limit. MATERIALIZED, because a
# bare subquery with LIMIT may be scanned again and then locks and gives more than it should. `asked` is materialized
# so that a paused queue is left out before its branch runs.
CLAIM = f"""
    WITH asked AS MATERIALIZED (
        SELECT w.queue, w.n, w.lease
        FROM unnest(%s::text[], %s::int4[], %s::float8[]) AS w(queue, n, lease)
        WHERE NOT EXISTS (SELECT FROM djqueue_queuestate s WHERE s.queue = w.queue AND s.paused)
    ), picked AS MATERIALIZED (
        SELECT j.id, a.lease
        FROM asked a CROSS JOIN LATERAL (
            SELECT id, priority, enqueued_at FROM djqueue_job
            WHERE status = 'pending' AND queue = a.queue
            ORDER BY priority, enqueued_at, id
            LIMIT a.n
            FOR UPDATE SKIP LOCKED
        ) j
        ORDER BY j.priority, j.enqueued_at, j.id
        LIMIT %s
    )
    UPDATE djqueue_job j SET
        status = 'claimed',
        token = %s::uuid,
        worker = %s::text,
        worker_ids = j.worker_ids || %s::text || ',',
        started = %s::bool,
        attempts = j.attempts + 1,
        claimed_at = statement_timestamp(),
        last_attempted_at = statement_timestamp(),
        started_at = COALESCE(j.started_at, statement_timestamp()),
        lease_expires_at = statement_timestamp() + interval '1 second' * COALESCE(
            %s::float8,
            j.lease,
            (SELECT t.lease FROM unnest(%s::text[], %s::float8[]) AS t(task, lease) WHERE t.task = j.task),
            picked.lease),
        progress = NULL,
        dedup_key = CASE WHEN j.dedup_until = 'done' THEN j.dedup_key END
    FROM picked
    WHERE j.id = picked.id
    RETURNING {RETURNED}
"""

PROMOTE = """
    WITH due AS MATERIALIZED (
        SELECT id FROM djqueue_job
        WHERE status = 'scheduled' AND run_at <= statement_timestamp()
        ORDER BY run_at, id
        LIMIT %s
        FOR UPDATE SKIP LOCKED
    )
    UPDATE djqueue_job j SET status = 'pending' FROM due WHERE j.id = due.id
"""
