"""Pause and resume queues."""

from __future__ import annotations

from djqueue.core.options import check_queue
from djqueue.sql import Statements, statements
from djqueue.sql.connection import own_transaction

from .limits import give_back


def pause(queue: str) -> None:
    """Stop claiming jobs of the queue, and give back the permits of its jobs. Jobs that are running continue."""
    check_queue(queue)
    _write(statements(), queue, paused=True)


def resume(queue: str) -> None:
    """Allow jobs of the queue to be claimed again."""
    check_queue(queue)
    _write(statements(), queue, paused=False)


def is_paused(queue: str) -> bool:
    """Return whether the queue is paused."""
    from djqueue.models import QueueState

    return QueueState.objects.using(statements().alias).filter(queue=queue, paused=True).exists()


@own_transaction
def _write(database: Statements, queue: str, *, paused: bool) -> None:
    from djqueue.models import Job, QueueState

    states = QueueState.objects.using(database.alias)
    fields = {"paused": paused, "paused_at": database.now() if paused else None}
    if not states.filter(queue=queue).update(**fields) and paused:
        states.bulk_create([QueueState(queue=queue)], ignore_conflicts=True)
        states.filter(queue=queue).update(**fields)
    if paused:
        freed = give_back(database, Job.objects.using(database.alias).filter(queue=queue))
        if freed:
            database.wake_limits(freed)
    else:
        database.wake(queue)
        database.wake_limits()
