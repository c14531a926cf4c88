"""Which workers are alive, and from which queues they claim."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import DateTimeField, QuerySet
from django.db.models.expressions import RawSQL

from djqueue.models import Worker

from .contract import Statements

HEARTBEAT_INTERVAL = 4.0  # seconds
# A worker whose last heartbeat is older is lost: three heartbeats are missing.
LOST_AFTER = 3 * HEARTBEAT_INTERVAL
# A loop of a worker that has had no good turn for so many seconds has a problem. See djqueue.worker.loops. A turn of a
# sweep that has much to delete may take a minute or two.
STALLED_AFTER = 180.0


def clock(database: Statements, offset: float = 0.0) -> RawSQL:
    """Return the database's clock, plus some seconds, for a query or a row: heartbeats are written by it."""
    now = database.now_sql()  # first: on SQLite, it reads the clock
    return RawSQL(database.later_sql(offset) if offset else now, [], DateTimeField())


def live(database: Statements) -> QuerySet[Worker]:
    """Return the workers that are alive."""
    running = Worker.objects.using(database.alias).filter(stopped_at=None)
    return running.filter(heartbeat_at__gte=clock(database, -LOST_AFTER))


def claiming(database: Statements) -> QuerySet[Worker]:
    """Return the workers that are alive and claim jobs."""
    return live(database).filter(draining=False, quiet=False)


def stored_queues(queues: Iterable[str], exclude: Iterable[str], *, claims: bool) -> Any:
    """Return what the row of a worker stores: the queues that it claims from, [] for all, False for none."""
    if not claims:
        return False
    return {"queues": [*queues], "exclude": [*exclude]} if exclude else [*queues]


def claims_from(stored: Any, queue: str) -> bool:
    """Return whether a worker with these stored queues claims jobs of this queue."""
    if isinstance(stored, dict):
        chosen, exclude = stored.get("queues", []), stored.get("exclude", [])
    else:
        chosen, exclude = stored, []
    return isinstance(chosen, list) and queue not in exclude and (not chosen or queue in chosen)
