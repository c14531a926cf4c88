"""Delete history that is strictly older than its retention, in small batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet

from djqueue.conf import FOR_EVER, config
from djqueue.core.durations import Duration, seconds
from djqueue.core.options import resolve
from djqueue.sql import Statements, statements
from djqueue.sql.connection import own_transaction

BATCH = 1000
M = TypeVar("M", bound=Model)


def sweep_done(older_than: Duration | None = None) -> int:
    """Delete done and cancelled jobs that completed longer ago than `older_than`, by default each queue's KEEP_DONE."""
    return sum(map(delete_in_batches, expired_done(older_than)))


def sweep_dead(older_than: Duration | None = None) -> int:
    """Delete jobs that became dead longer ago than `older_than`, by default KEEP_DEAD."""
    return sum(map(delete_in_batches, expired_dead(older_than)))


def sweep_kv() -> int:
    """Delete expired KV entries."""
    return delete_in_batches(expired_kv())


def expired_done(older_than: Duration | None = None, queues: Sequence[str] | None = None) -> Iterator[QuerySet[Any]]:
    """Return the done and cancelled jobs to delete, a query per queue: of these queues, or of all."""
    from djqueue.models import DoneJob

    given = None if older_than is None else seconds(older_than, "older_than")
    database = statements()
    now = database.now()
    for queue in database.queues_in("djqueue_donejob") if queues is None else queues:
        age = resolve("keep_done", queue, call=given)
        if age < FOR_EVER:
            rows = DoneJob.objects.using(database.alias).filter(queue=queue, completed_at__lt=_cutoff(now, age))
            yield rows.order_by("completed_at")


def expired_dead(older_than: Duration | None = None, queues: Sequence[str] | None = None) -> Iterator[QuerySet[Any]]:
    """Return the dead jobs to delete: one query, or none if they are kept for ever."""
    from djqueue.models import DeadJob

    database = statements()
    age = config().keep_dead if older_than is None else seconds(older_than, "older_than")
    if age < FOR_EVER:
        rows = DeadJob.objects.using(database.alias).filter(failed_at__lt=_cutoff(database.now(), age))
        yield (rows if queues is None else rows.filter(queue__in=queues)).order_by("failed_at")


def expired_kv() -> QuerySet[Any]:
    """Return the KV entries to delete."""
    from djqueue.models import KV

    database = statements()
    return KV.objects.using(database.alias).filter(expires_at__lte=database.now()).order_by("expires_at")


def clear_dead(queue: str) -> int:
    """Delete every dead job of a queue."""
    from djqueue.models import DeadJob

    return delete_in_batches(DeadJob.objects.using(statements().alias).filter(queue=queue).order_by("id"))


def delete_dead(ids: Sequence[UUID]) -> list[UUID]:
    """Delete dead jobs, in one short transaction, and return those that were dead."""
    return _delete_dead(statements(), ids) if ids else []


@own_transaction
def _delete_dead(database: Statements, ids: Sequence[UUID]) -> list[UUID]:
    from djqueue.models import DeadJob

    dead = DeadJob.objects.using(database.alias).filter(pk__in=ids)
    found = list(dead.select_for_update().order_by("pk").values_list("pk", flat=True))
    DeadJob.objects.using(database.alias).filter(pk__in=found)._raw_delete(database.alias)
    return found


def delete_in_batches(rows: QuerySet[M], go_on: Callable[[int], bool] = bool) -> int:
    """Delete what the query finds, a short transaction per batch; rows that are locked are left.

    `go_on` is called with the size of each batch, and returns whether to delete the next.
    """
    database = statements()
    deleted = 0
    while batch := _delete_batch(database, rows):
        deleted += batch
        if not go_on(batch):
            break
    return deleted


@own_transaction
def _delete_batch(database: Statements, rows: QuerySet[M]) -> int:
    ids = list(rows.select_for_update(skip_locked=True).values_list("pk", flat=True)[:BATCH])
    if ids:
        rows.model._base_manager.using(database.alias).filter(pk__in=ids)._raw_delete(database.alias)
    return len(ids)


def _cutoff(now: datetime, age: float) -> datetime:
    return now - timedelta(seconds=age)
