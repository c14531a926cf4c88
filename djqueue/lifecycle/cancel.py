"""Cancel jobs: remove those that wait, request a cancel of those that are claimed."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from djqueue.conf import config
from djqueue.core.records import CancelledJob
from djqueue.sql import statements

from . import announce


def cancel_many(ids: Sequence[UUID]) -> list[CancelledJob]:
    """Cancel jobs in one statement; return those that were live."""
    database = statements()
    cancelled = database.cancel(ids, config().queues_that_keep(), config().keep_done > 0)
    removed = [done.record for done in cancelled if done.record is not None]
    if keys := {record.limit_key for record in removed if record.limit_key is not None}:
        database.wake_limits(keys)
    announce.cancelled(removed)
    return cancelled
