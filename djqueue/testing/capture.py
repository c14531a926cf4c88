"""Note what is enqueued."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from djqueue.core.records import JobRecord
from djqueue.lifecycle.announce import enqueue_observers


@contextmanager
def capture_jobs() -> Iterator[list[JobRecord]]:
    """Yield a list that is filled with the jobs that are enqueued in the block, by any thread, in their order.

    Jobs of schedules and copies of finished jobs are included. A duplicate, which creates no job, is not, nor is a dead
    job that is requeued. A job enqueued on commit is added when it is written, so after the commit.
    """
    jobs: list[JobRecord] = []

    # Not the bound method: two empty lists are equal, and so are their methods.
    def observe(records: list[JobRecord]) -> None:
        jobs.extend(records)

    enqueue_observers.append(observe)
    try:
        yield jobs
    finally:
        enqueue_observers.remove(observe)
