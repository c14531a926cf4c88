"""Claim one waiting job by its id, also before it is due: for jobs that run as soon as they are enqueued."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from djqueue.conf import MAX_PRIORITY
from djqueue.core.records import Mark
from djqueue.sql import statements
from djqueue.states import WAITING, Status

from .claim import ClaimedJob, claim

FIRST = -MAX_PRIORITY - 1  # before every priority that a call can set
COLUMNS = ("task", "queue", "priority", "status", "enqueued_at")


def claim_by_id(job_id: UUID, is_wanted: Callable[[str], bool]) -> ClaimedJob | None:
    """Claim a job; None if it is not waiting, if its queue is paused, or if its task is not wanted.

    It needs no permit of its limit key.
    In one transaction, the job becomes the first of its queue, is claimed as any other, and gets its priority back.
    """
    from djqueue.models import Job

    database = statements()
    rows = Job.objects.using(database.alias).filter(pk=job_id)

    def claim_it() -> ClaimedJob | None:
        row = rows.select_for_update().filter(status__in=[status.value for status in WAITING]).only(*COLUMNS).first()
        if row is None or not is_wanted(row.task):
            return None
        rows.update(priority=FIRST, status=Status.PENDING.value)
        # The mark is needed on PostgreSQL, where a scan without one begins behind the first priority.
        claimed = claim({row.queue: 1}, limit=1, marks={row.queue: Mark(FIRST, row.enqueued_at, row.id)})
        if not claimed:
            rows.update(priority=row.priority, status=row.status)
            return None
        rows.update(priority=row.priority)
        [job] = claimed
        job.row = job.row._replace(priority=row.priority)
        return job

    return database.own_transaction(claim_it)
