"""Admit blocked jobs."""

from __future__ import annotations

from functools import cache

from djqueue.core.records import Admit
from djqueue.sql.columns import postgresql_types
from djqueue.sql.limits import ADMITTED, UNPAUSED

from .arrays import ANY_PLACE, WAKE_FOR_PENDING, given, listed

ADMIT_COLUMNS = postgresql_types(Admit)


@cache
def admit_sql(notify: bool) -> str:
    """Return a statement with a branch per key, each a walk along djqueue_job_blocked that ends at its limit.

    Its first rows are the keys with the permits in use. The others are the admitted jobs with their place in line. Its
    timestamp is a number, since Django takes 20 µs to read another form. See CLAIM for MATERIALIZED.
    """
    wake = WAKE_FOR_PENDING if notify else ""
    return f"""
    WITH asked AS MATERIALIZED (
        SELECT a.key, c.admitted, c.pending,
               GREATEST(LEAST(a.most, a.concurrency - c.admitted, a.burst - c.pending), 0) AS n
        FROM {given(ADMIT_COLUMNS, "a")} CROSS JOIN LATERAL (
            SELECT count(*) AS admitted, count(*) FILTER (WHERE status = 'pending') AS pending
            FROM djqueue_job WHERE limit_key = a.key AND {ADMITTED}
        ) c
    ), picked AS MATERIALIZED (
        SELECT j.id FROM asked a CROSS JOIN LATERAL (
            SELECT id FROM djqueue_job j
            WHERE status = 'blocked' AND limit_key = a.key AND {ANY_PLACE} AND {UNPAUSED}
            ORDER BY priority, enqueued_at, id
            LIMIT a.n
            FOR UPDATE SKIP LOCKED
        ) j
    ), admitted AS (
        UPDATE djqueue_job j SET status = 'pending' WHERE {listed("picked")}
        RETURNING j.limit_key, j.id, j.task, j.priority, j.enqueued_at, j.queue
    )
    SELECT key, admitted, pending, NULL, NULL, NULL, NULL {", NULL::void" if notify else ""} FROM asked
    UNION ALL
    SELECT limit_key, NULL, NULL, id, task, priority, EXTRACT(EPOCH FROM enqueued_at)::float8 {wake} FROM admitted j
    """
