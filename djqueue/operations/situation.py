"""What a job's state depends on: its row, its queue, the workers and the jobs ahead of it. Each is read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from djqueue.core.options import job_id, resolve
from djqueue.core.records import Mark
from djqueue.exceptions import InvalidOption
from djqueue.models import DeadJob, DoneJob, Job, QueueState, Worker
from djqueue.sql import Statements, ahead, statements, workers
from djqueue.states import Status

from .summary import WorkerState, worker_state

MOST_WORKERS = 1000
# Jobs are counted up to here; one more stands for any larger number.
MOST_COUNTED = 10_000
# Not needed, and possibly large.
UNREAD = ("headers", "errors", "retry")


class Situation:
    """A job's row and what surrounds it. Properties are read at their first use, with one statement each."""

    def __init__(self, job: Any, now: datetime) -> None:
        self.database: Statements = statements()
        self.job = job
        self.now = now

    @property
    def queue(self) -> str:
        return str(self.job.queue)

    @cached_property
    def state(self) -> QueueState | None:
        """The state of its queue, if the queue was ever paused."""
        return QueueState.objects.using(self.database.alias).filter(queue=self.queue).first()

    @property
    def is_paused(self) -> bool:
        return self.state is not None and self.state.paused

    @cached_property
    def workers(self) -> Sequence[Any]:
        """The workers that have not stopped, including lost ones; each has its `state`."""
        rows = Worker.objects.using(self.database.alias).filter(stopped_at=None).defer("samples", "loops")
        found = list(rows.annotate(now=workers.clock(self.database)).order_by("-heartbeat_at")[:MOST_WORKERS])
        for row in found:
            row.state = worker_state(row)  # type: ignore[attr-defined]
        return found

    @cached_property
    def consumers(self) -> list[Any]:
        """The workers that are alive and claim jobs of its queue."""
        return [
            row
            for row in self.workers
            if row.state is WorkerState.ALIVE and workers.claims_from(row.queues, self.queue)
        ]

    @property
    def threads(self) -> int:
        return sum(row.threads for row in self.consumers)

    @property
    def mark(self) -> Mark:
        return Mark(self.job.priority, self.job.enqueued_at, self.job.pk)

    @cached_property
    def ahead(self) -> int:
        """How many pending jobs come before it."""
        return ahead.count(self.database, self.queue, self.mark, MOST_COUNTED + 1)

    @cached_property
    def pending(self) -> int:
        """How many pending jobs its queue has."""
        rows = Job.objects.using(self.database.alias).filter(status=Status.PENDING.value, queue=self.queue)
        return rows.order_by()[: MOST_COUNTED + 1].count()

    @cached_property
    def holder(self) -> Any:
        """The row of the worker that holds it, with its `state`; None if it is not a worker's, or was deleted."""
        rows = Worker.objects.using(self.database.alias).filter(identity=self.job.worker).defer("samples")
        row: Any = rows.annotate(now=workers.clock(self.database)).first()
        if row is not None:
            row.state = worker_state(row)
        return row

    @property
    def concurrency(self) -> int | None:
        """The limit of its queue in each worker process, by the settings; `--queue NAME=N` is not known here."""
        limit: int | None = resolve("concurrency", self.queue)
        return limit

    @cached_property
    def held(self) -> Counter[str]:
        """How many jobs of its queue each worker holds. Claimed rows are few, and have an index."""
        rows = Job.objects.using(self.database.alias).filter(status=Status.CLAIMED.value, queue=self.queue)
        return Counter(rows.order_by().values_list("worker", flat=True)[:MOST_COUNTED])

    @property
    def is_at_limit(self) -> bool:
        """Whether every worker that consumes the queue holds as many of its jobs as it may."""
        limit = self.concurrency
        return limit is not None and all(self.held[row.identity] >= limit for row in self.consumers)


def find(given: UUID | str) -> Situation | None:
    """Return the situation of a job, whatever its state; None if it does not exist, or if its id is malformed."""
    try:
        pk = job_id(given)
    except InvalidOption:
        return None
    database = statements()
    # The live table again at the end: meanwhile, a dead job may have been requeued.
    for model in (Job, DoneJob, DeadJob, Job):
        rows: Any = model._base_manager.using(database.alias).annotate(now=workers.clock(database)).defer(*UNREAD)
        row = rows.filter(pk=pk).first()
        if row is not None:
            return Situation(row, row.now)
    return None
