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
