"""Ask a worker to be quiet, to resume or to drain, by its rows in the list of workers.

Invariant: a worker obeys the latest request that was written to the rows of its own processes since it started, once,
and with all of its processes. It reads these rows alone, by their primary keys, so a request cannot reach another
worker. The time of a request is the database's, written by the statement that writes the request. The worker obeys only
what is later than the request that it obeyed last, and at first, than its own start. Heartbeats never write the columns
of a request, and a request writes no others.
tests/worker/test_requests.py and tests/processes/test_requests.py attack this.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from djqueue.models import Worker
from djqueue.sql import Statements, statements, workers
from djqueue.sql.connection import own_transaction
from djqueue.states import WorkerRequest


def request(identity: str, what: WorkerRequest) -> int:
    """Ask the worker that this process belongs to, and return how many of its processes are alive and were asked.

    Return 0, and write nothing, if this process has stopped or is lost.
    """
    return _write(statements(), identity, WorkerRequest(what))


def latest(identities: Collection[str], after: datetime) -> tuple[str, datetime] | None:
    """Return the latest request to these processes after that time, and its own time; None if there is none."""
    rows = Worker.objects.using(statements().alias).filter(pk__in=identities, requested_at__gt=after)
    found: Any = rows.order_by("-requested_at").values_list("request", "requested_at").first()
    return found  # type: ignore[no-any-return]


@own_transaction
def _write(database: Statements, identity: str, what: WorkerRequest) -> int:
    live = workers.live(database)
    supervisor = live.filter(pk=identity).values_list("supervisor", flat=True).first()
    if supervisor is None:
        return 0
    rows = live.filter(supervisor=supervisor) if supervisor else live.filter(pk=identity)
    # Locked in the order in which heartbeats write them, so that neither waits for the other for ever.
    locked = list(rows.order_by("pk").select_for_update().values_list("pk", flat=True))
    asked = Worker.objects.using(database.alias).filter(pk__in=locked)
    return asked.update(request=what.value, requested_at=workers.clock(database))
