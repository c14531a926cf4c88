"""The rows of the list of workers: one per process, written by its supervisor."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import djqueue
from djqueue.conf import config
from djqueue.models import Worker
from djqueue.sql import statements, workers
from djqueue.worker.memory_samples import MemorySamples
from djqueue.worker.options import Options

DELETED_AFTER = timedelta(days=1)
# Never the columns of a request.
WRITTEN = ["running", "finished", "memory", "samples", "loops", "quiet", "draining", "heartbeat_at", "stopped_at"]


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
    samples: MemorySamples = field(default_factory=MemorySamples)
    loops: dict[str, float] = field(default_factory=dict)  # seconds since the last good turn of each of its loops
    quiet: bool = False
    draining: bool = False
    stopped: bool = False
    stop_written: bool = False  # to its row


class Heartbeats:
    """Write the rows of all processes in one statement."""

    def __init__(self, options: Options, supervisor: str, loops: Callable[[], dict[str, float]] = dict) -> None:
        self.options = options
        self.supervisor = supervisor
        self.loops = loops  # of the supervisor itself: they are written to the rows of all its processes
        self.host = socket.gethostname()[:255]

    def beat(self, statuses: Iterable[ProcessStatus]) -> None:
        # In the order of the primary keys: a request to the worker locks the rows in this order too.
        changing = sorted((status for status in statuses if not status.stop_written), key=lambda one: one.identity)
        rows = [self._row(status) for status in changing]
        if rows:
            Worker.objects.using(config().database).bulk_create(
                rows,
                update_conflicts=True,
                update_fields=WRITTEN,
                unique_fields=None if statements().connection.vendor == "mysql" else ["identity"],
            )
        for status, row in zip(changing, rows, strict=True):
            status.stop_written = row.stopped_at is not None

    def _row(self, status: ProcessStatus) -> Worker:
        database, options = statements(), self.options
        now = workers.clock(database)  # read by the statement that writes the row
        status.samples.add(status.memory)
        samples: Any = status.samples.values
        loops: Any = {} if status.stopped else self.loops() | status.loops
        return Worker(
            identity=status.identity,
            name=f"{options.name[:200]} quarantine".lstrip() if status.quarantine else options.name,
            supervisor=self.supervisor,
            host=self.host,
            pid=status.pid,
            queues=workers.stored_queues(options.queues, options.exclude, claims=not status.quarantine),
            threads=1 if status.quarantine else options.threads,
            running=0 if status.stopped else status.running,
            finished=status.finished,
            memory=status.memory,
            version=djqueue.__version__,
            samples=samples,
            loops=loops,
            quiet=status.quiet,
            draining=status.draining,
            started_at=now,  # written once
            heartbeat_at=workers.clock(database, -status.silent_for),
            stopped_at=now if status.stopped else None,
        )


def delete_old() -> int:
    """Delete the rows of processes whose last heartbeat is older than a day."""
    old = Worker.objects.using(config().database).filter(heartbeat_at__lt=statements().now() - DELETED_AFTER)
    return old.delete()[0]
