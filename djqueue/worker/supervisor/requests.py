"""Reads the requests of operators to this worker: `djqueue.lifecycle.worker_requests` has the invariant.

The background thread reads them, and passes each on once. The thread that the callback wakes up acts: the supervisor's
main thread never uses the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from djqueue.core.log import logger
from djqueue.lifecycle import worker_requests
from djqueue.sql import statements
from djqueue.states import WorkerRequest

from .heartbeats import ProcessStatus
from .periodic import Periodic

INTERVAL = 2.0  # seconds

Obey = Callable[[WorkerRequest], None]


class Requests:
    def __init__(self, statuses: Callable[[], Iterable[ProcessStatus]], obey: Obey) -> None:
        self.statuses = statuses
        self.obey = obey
        self.obeyed_at: datetime | None = None  # the time of the last request, or of the start, by the database's clock
        self.periodic = Periodic("reading requests", self.work, INTERVAL)

    def work(self) -> None:
        if self.obeyed_at is None:  # the first heartbeat comes later, so there can be no earlier request
            self.obeyed_at = statements().now()
            return
        # Also the rows of processes that have exited: a request may be written to them before that is known.
        identities = [status.identity for status in self.statuses()]
        found = worker_requests.latest(identities, self.obeyed_at) if identities else None
        if found is not None:
            what, self.obeyed_at = found
            if what in [known.value for known in WorkerRequest]:
                logger.info("request received request=%s", what)
                self.obey(WorkerRequest(what))
            else:
                logger.warning("unknown request ignored request=%r", what)
