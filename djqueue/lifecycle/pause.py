"""Pause and resume queues."""

from __future__ import annotations

from djqueue.options import check_queue
from djqueue.sql import statements


def pause(queue: str) -> None:
    """Give out no more jobs of that queue; those that run go on."""
    _set(queue, paused=True)


def resume(queue: str) -> None:
    _set(queue, paused=False)


def is_paused(queue: str) -> bool:
    from djqueue.models import QueueState

    return QueueState.objects.using(statements().alias).filter(queue=queue, paused=True).exists()


def _set(queue: str, *, paused: bool) -> None:
    from djqueue.models import QueueState

    check_queue(queue)
    database = statements()

    def write() -> None:
        states = QueueState.objects.using(database.alias)
        fields = {"paused": paused, "paused_at": database.now() if paused else None}
        if not states.filter(queue=queue).update(**fields) and paused:
            states.bulk_create([QueueState(queue=queue)], ignore_conflicts=True)
            states.filter(queue=queue).update(**fields)
        if not paused:
            database.wake(queue)

    database.own_transaction(write)
