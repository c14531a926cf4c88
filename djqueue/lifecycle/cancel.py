"""Cancel jobs: a waiting one ends at once, a claimed one is asked to."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from djqueue.conf import config
from djqueue.records import CancelledJob
from djqueue.sql import statements
from djqueue.states import CancelOutcome

from . import announce


def cancel(job_id: UUID) -> CancelOutcome:
    """Cancel one job."""
    return next((done.outcome for done in cancel_many([job_id])), CancelOutcome.NOT_FOUND)


def cancel_many(ids: Sequence[UUID]) -> list[CancelledJob]:
    """Cancel jobs, in one statement; gives those that were there."""
    cancelled = statements().cancel(ids, *config().queues_kept_otherwise())
    announce.cancelled([done.record for done in cancelled if done.record is not None])
    return cancelled
