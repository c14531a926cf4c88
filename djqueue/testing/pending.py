"""Run the jobs that are due, in the thread and on the connection of the test."""

from __future__ import annotations

from collections.abc import Iterator

from djqueue.conf import whole
from djqueue.core.async_twins import twin
from djqueue.core.options import check_queue
from djqueue.core.records import JobRecord
from djqueue.exceptions import DjqueueError
from djqueue.sql import statements
from djqueue.worker import in_transaction
from djqueue.worker.inline import Attempt
from djqueue.worker.options import Options

LIMIT = 10_000


def run_pending(queue: str | None = None, raise_errors: bool = True, *, limit: int = LIMIT) -> list[JobRecord]:
    """Run the jobs that are due, of one queue or of all, until none is due; return one record per attempt.

    Jobs run in the order of claims; those that jobs enqueue run too, and those of paused queues stay. If a task fails,
    its exception is raised after the job is settled, and further jobs are left pending. With `raise_errors=False`, it
    is retried or dies as in production. Raise DjqueueError after more than `limit` attempts.
    """
    statements()  # refuses an event loop first of all
    if queue is not None:
        check_queue(queue)
    ran: list[JobRecord] = []
    for attempt in attempts(ran, queue, whole(limit, "limit")):
        if raise_errors:
            attempt.raise_error()
    return ran


arun_pending = twin(run_pending)


def attempts(ran: list[JobRecord], queue: str | None, limit: int) -> Iterator[Attempt]:
    """Run the jobs that are due, one with each step, and add their records. Raise DjqueueError beyond `limit`."""
    for attempt in in_transaction.attempts(Options(queues={} if queue is None else {queue: None})):
        yield attempt
        if (record := attempt.record()) is not None:
            ran.append(record)
        if len(ran) > limit:
            raise DjqueueError(
                f"More than {limit} jobs have run, the last one of task {attempt.job.task}. Do jobs enqueue each other "
                "or retry without end? If not, pass a higher limit."
            )
