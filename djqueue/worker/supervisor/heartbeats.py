"""The rows of the list of workers: one per process, written by its supervisor."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import DateTimeField
from django.db.models.expressions import RawSQL

import djqueue
from djqueue.conf import config
from djqueue.models import Worker
from djqueue.sql import statements
from djqueue.worker.options import Options

INTERVAL = 5.0
DELETED_AFTER = timedelta(days=1)


@dataclass
class ProcessStatus:
    """What the supervisor knows about one worker process."""

    identity: str
    pid: int
    running: int = 0
    quarantine: bool = False  # it runs suspects, and claims no jobs
    silent_for: float = 0.0  # seconds since it last reported, if that is too long
    finished: int = 0
    memory: int = 0
    draining: bool = False
    stopped: bool = False
    stop_written: bool = False  # to its row


class Heartbeats:
    """Write the rows of all processes in one statement."""

    def __init__(self, options: Options, supervisor: str) -> None:
        self.options = options
        self.supervisor = supervisor
        self.host = socket.gethostname()[:255]

    def beat(self, statuses: Iterable[ProcessStatus]) -> None:
        changing = [status for status in statuses if not status.stop_written]
        rows = [self._row(status) for status in changing]
        if rows:
            Worker.objects.using(config().database).bulk_create(
                rows,
                update_conflicts=True,
                update_fields=["running", "finished", "memory", "draining", "heartbeat_at", "stopped_at"],
                unique_fields=None if statements().connection.vendor == "mysql" else ["identity"],
            )
        for status, row in zip(changing, rows, strict=True):
            status.stop_written = row.stopped_at is not None

    def _row(self, status: ProcessStatus) -> Worker:
        # The database's clock, read by the statement that writes the row.
        database = statements()
        clock = DateTimeField()
        now = RawSQL(database.now_sql(), [], clock)
        reported_at = RawSQL(database.later_sql(-status.silent_for), [], clock)
        return Worker(
            identity=status.identity,
            name=f"{self.options.name[:200]} quarantine".lstrip() if status.quarantine else self.options.name,
            supervisor=self.supervisor,
            host=self.host,
            pid=status.pid,
            queues=list(self.options.queues),  # type: ignore[misc]
            threads=self.options.threads,
            running=status.running,
            finished=status.finished,
            memory=status.memory,
            version=djqueue.__version__,
            draining=status.draining,
            started_at=now,  # written once
            heartbeat_at=reported_at,
            stopped_at=now if status.stopped else None,
        )


def delete_old() -> int:
    """Delete the rows of processes whose last heartbeat is older than a day."""
    old = Worker.objects.using(config().database).filter(heartbeat_at__lt=statements().now() - DELETED_AFTER)
    return old.delete()[0]
