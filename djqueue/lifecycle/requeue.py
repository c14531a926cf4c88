"""Put dead jobs back, and change the time or the priority of waiting ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from djqueue import conf
from djqueue.core.options import normal_run_at
from djqueue.core.records import JobRecord, Requeue
from djqueue.exceptions import InvalidOption
from djqueue.sql import statements

from . import announce


def requeue_many(requeues: Sequence[Requeue]) -> list[JobRecord]:
    """Put dead jobs back under their ids, in one statement; return those that were dead.

    Attempts, last error, time of death, cancel request and dedup key are cleared; the errors are kept, marked as
    older than the requeue.
    """
    items = [item if item.run_at is None else replace(item, run_at=normal_run_at(item.run_at)) for item in requeues]
    records = statements().requeue(items)
    announce.requeued(records)
    return records


def reschedule_many(ids: Sequence[UUID], *, run_at: datetime | None = None, priority: int | None = None) -> list[UUID]:
    """Change the time or the priority of waiting jobs; return the ids of those that were waiting."""
    if run_at is None and priority is None:
        raise InvalidOption("reschedule() requires run_at, priority or both")
    if run_at is not None:
        run_at = normal_run_at(run_at)
    if priority is not None:
        conf.priority(priority, "priority")
    return statements().reschedule(ids, run_at, priority) if ids else []
