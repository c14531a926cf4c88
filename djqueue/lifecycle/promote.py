"""Make scheduled jobs pending when their time has come."""

from __future__ import annotations

from djqueue.sql import statements

BATCH = 500


def promote() -> int:
    """Promote all that is due, in batches along the index of run_at: the cost is what is due, not what is stored."""
    promoted = 0
    while True:
        batch = len(statements().promote(BATCH))
        promoted += batch
        if batch < BATCH:
            return promoted


def due_in() -> float | None:
    """Seconds until the next scheduled job is due, by the database's clock; None when there is none."""
    database = statements()
    rows = database.fetch(
        f"SELECT run_at, {database.now_sql()} FROM djqueue_job WHERE status = 'scheduled' ORDER BY run_at LIMIT 1"
    )
    if not rows:
        return None
    run_at, now = map(database.instant, rows[0])
    return float((run_at - now).total_seconds())
