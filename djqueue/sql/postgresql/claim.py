"""Make jobs pending, and take pending ones."""

from __future__ import annotations

from typing import Any

from djqueue.core.records import ClaimRequest, Mark
from djqueue.sql.columns import CLAIMED, CLAIMED_INSTANTS, MAX_WORKER_IDS

from .arrays import ANY_ID, ANY_PLACE, listed, newest

# Instants come as seconds since the epoch, exact to the microsecond: six datetimes of a row in the driver's text form
# take longer to read than all the rest of it. Not by extract(), which computes a numeric.
RETURNED = ", ".join(f"date_part('epoch', j.{name})" if name in CLAIMED_INSTANTS else f"j.{name}" for name in CLAIMED)

FIRST, LAST = f"({-(2**63)})::int8", f"({2**63 - 1})::int8"  # before and behind every priority

# One branch per unpaused queue, each a walk along djqueue_job_claim that ends at its limit. MATERIALIZED, because a
# bare subquery with LIMIT may be scanned again and then locks and returns more than it should. `asked` is materialized
# so that a paused queue is left out before its branch runs. An infinite run_at, written by hand, could not be read by
# the reaper.
#
# While a transaction stays open, entries of jobs that were claimed since stay in the index, and each branch would walk
# over all of them: it begins at a mark, if there is one and no job of a higher priority has been enqueued. The bounds
# of priority and time are there for the reason of ANY_PLACE.
#
# `started` and `lease_expires_at` are computed for each row, which takes a sixth of the time. If all jobs start now, or
# have the same lease, a parameter says so, and the subqueries are not run.
CLAIM = f"""
    WITH asked AS MATERIALIZED (
        SELECT w.queue, w.n, w.lease, w.enqueued_at, w.id, CASE
            WHEN w.priority IS NULL THEN {FIRST}
            WHEN (SELECT true FROM djqueue_job WHERE status = 'pending' AND queue = w.queue
                  AND priority < w.priority AND {ANY_PLACE} ORDER BY priority, enqueued_at, id LIMIT 1) THEN {FIRST}
            ELSE w.priority END AS priority,
            {LAST} AS highest, '-infinity'::timestamptz AS earliest, 'infinity'::timestamptz AS latest
        FROM unnest(%s::text[], %s::int4[], %s::float8[], %s::int8[], %s::timestamptz[], %s::uuid[])
            AS w(queue, n, lease, priority, enqueued_at, id)
        WHERE NOT EXISTS (SELECT FROM djqueue_queuestate s WHERE s.queue = w.queue AND s.paused)
    ), picked AS MATERIALIZED (
        SELECT j.*, row_number() OVER (ORDER BY j.priority, j.enqueued_at, j.id) AS place
        FROM asked a CROSS JOIN LATERAL (
            SELECT id, priority, enqueued_at FROM djqueue_job
            WHERE status = 'pending' AND queue = a.queue
              AND (priority, enqueued_at, id) >= (a.priority, a.enqueued_at, a.id)
              AND priority <= a.highest AND enqueued_at BETWEEN a.earliest AND a.latest
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
        worker = me.worker,
        worker_ids = {newest("j.worker_ids", "(me.worker || ',')", MAX_WORKER_IDS, "','")},
        started = %s::bool OR COALESCE((j.priority, j.enqueued_at, j.id) <= (
            SELECT priority, enqueued_at, id FROM picked WHERE place <= %s::int4 ORDER BY place DESC LIMIT 1), false),
        attempts = j.attempts + 1,
        run_at = CASE WHEN isfinite(j.run_at) THEN j.run_at ELSE statement_timestamp() END,
        claimed_at = statement_timestamp(),
        last_attempted_at = statement_timestamp(),
        started_at = COALESCE(j.started_at, statement_timestamp()),
        lease_expires_at = statement_timestamp() + interval '1 second' * COALESCE(
            %s::float8,
            j.lease,
            %s::float8,
            (SELECT t.lease FROM unnest(%s::text[], %s::float8[]) AS t(task, lease) WHERE t.task = j.task),
            (SELECT a.lease FROM asked a WHERE a.queue = j.queue)),
        progress = NULL,
        dedup_key = CASE WHEN j.dedup_until = 'done' THEN j.dedup_key END
    FROM (SELECT %s::text AS worker) AS me
    WHERE {listed("picked")}
    RETURNING {RETURNED}
"""


def parameters(request: ClaimRequest) -> list[Any]:
    """Return the parameters of CLAIM."""
    return [
        list(request.wants),
        list(request.wants.values()),
        [request.leases[queue] for queue in request.wants],
        *([getattr(request.marks.get(queue), name, None) for queue in request.wants] for name in Mark._fields),
        request.limit,
        request.token,
        request.begin >= request.limit,
        request.begin,
        request.lease,
        request.common_lease(),
        list(request.task_leases),
        list(request.task_leases.values()),
        request.worker,
    ]


# The planner must not know the limit: where it believes that fewer jobs are due, it sorts all that are.
PROMOTE = f"""
    WITH due AS MATERIALIZED (
        SELECT id FROM djqueue_job
        WHERE status = 'scheduled' AND run_at <= statement_timestamp()
            AND run_at >= (SELECT '-infinity'::timestamptz) AND {ANY_ID}
        ORDER BY run_at, id
        LIMIT (SELECT %s::int8)
        FOR UPDATE SKIP LOCKED
    )
    UPDATE djqueue_job j SET status = CASE WHEN j.limit_key IS NULL THEN 'pending' ELSE 'blocked' END
    WHERE {listed("due")}
"""


def queues_sql(condition: str) -> str:
    """The distinct queues of live jobs, hopping along djqueue_job_claim.

    Not by min(): the planner may compute that from all rows, and does so where it expects few.
    """
    first = f"SELECT queue FROM djqueue_job WHERE {condition} AND {ANY_PLACE}"
    return f"""
    WITH RECURSIVE hop(value) AS (
        SELECT ({first} ORDER BY queue LIMIT 1)
        UNION ALL
        SELECT ({first} AND queue > hop.value ORDER BY queue LIMIT 1) FROM hop WHERE hop.value IS NOT NULL
    )
    SELECT value FROM hop WHERE value IS NOT NULL
    """


# Reads the first entries of each queue and priority along djqueue_job_claim, not all pending rows: since jobs of one
# priority are claimed in that order, one of them has waited longest, unless all of them were delayed. The first LIMIT
# bounds the hops if every job has a priority of its own.
OLDEST_PENDING = """
    WITH RECURSIVE hop AS (
        (SELECT queue, priority FROM djqueue_job WHERE status = 'pending' ORDER BY queue, priority LIMIT 1)
        UNION ALL
        SELECT next.queue, next.priority FROM hop, LATERAL (
            SELECT queue, priority FROM djqueue_job
            WHERE status = 'pending' AND (queue, priority) > (hop.queue, hop.priority)
            ORDER BY queue, priority LIMIT 1
        ) next
    )
    SELECT h.queue, MIN(first.since) FROM (SELECT * FROM hop LIMIT 2000) h, LATERAL (
        SELECT GREATEST(run_at, enqueued_at) AS since FROM djqueue_job j
        WHERE status = 'pending' AND j.queue = h.queue AND j.priority = h.priority
        ORDER BY enqueued_at, id LIMIT 50
    ) first GROUP BY h.queue
"""
