"""Make scheduled jobs pending when they are due, or blocked if they need a permit."""

from __future__ import annotations

from djqueue.sql import statements

from .admit import hand_on

BATCH = 500


def promote() -> int:
    """Promote all due jobs, in batches along the index of run_at, and return how many.

    The cost depends on the number of due jobs, not of stored ones.
    """
    promoted = 0
    while True:
        keys = statements().promote(BATCH)
        promoted += len(keys)
        hand_on(keys)
        if len(keys) < BATCH:
            return promoted


def due_in() -> float | None:
    """Return the seconds until the next scheduled job is due, by the database's clock, or None if there is none."""
    database = statements()
    rows = database.fetch(
        f"SELECT run_at, {database.now_sql()} FROM djqueue_job WHERE status = 'scheduled' ORDER BY run_at LIMIT 1"
    )
    if not rows:
        return None
    run_at, now = map(database.instant, rows[0])
    return float((run_at - now).total_seconds())
