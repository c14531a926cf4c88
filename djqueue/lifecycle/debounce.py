"""`on_duplicate="replace"`: the waiting job that holds the dedup key gets the arguments and time of the new call."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from djqueue.core.records import Inserted, NewJob
from djqueue.sql import Statements
from djqueue.states import Status


def replace(database: Statements, jobs: Sequence[NewJob], inserted: Sequence[Inserted]) -> list[Inserted]:
    """Change the jobs that were found by their dedup keys, and are locked, as far as the calls ask for it."""
    return [
        _replace(database, job, row) if job.replace and not row.created else row
        for job, row in zip(jobs, inserted, strict=True)
    ]


def _replace(database: Statements, job: NewJob, hit: Inserted) -> Inserted:
    """Change a job, unless it is claimed, or of another task, which would not understand the arguments."""
    from djqueue.models import Job

    # A locking read: the snapshot of the transaction may be older than the row, which the insert has locked.
    rows = Job.objects.using(database.alias).select_for_update().only("task", "queue", "limit_key", "status")
    row = rows.get(pk=hit.id)
    if row.status == Status.CLAIMED.value or row.task != job.task:
        return hit
    now = database.now()
    run_at = job.run_at or now + timedelta(seconds=job.delay)
    if job.max_wait is not None:
        run_at = min(run_at, hit.enqueued_at + timedelta(seconds=job.max_wait))
    if run_at > now:
        status = Status.SCHEDULED
    elif job.limit_key is None or (row.status == Status.PENDING.value and row.limit_key == job.limit_key):
        status = Status.PENDING
    else:
        status = Status.BLOCKED
    changes = {name: getattr(job, name) for name in ("args", "kwargs", "headers", "priority", "limit_key")}
    changes |= {"run_at": run_at, "status": status.value}
    database.execute(
        f"UPDATE djqueue_job SET {', '.join(f'{name} = %s' for name in changes)} WHERE id = %s",
        [*map(database.adapt, changes.values()), database.adapt(hit.id)],
    )
    if status is Status.SCHEDULED:
        database.wake_scheduler()
    elif status is Status.PENDING:
        database.wake(row.queue)
    if keys := {key for key in (row.limit_key, job.limit_key) if key is not None}:
        database.wake_limits(keys)
    return hit._replace(status=status, run_at=run_at)
