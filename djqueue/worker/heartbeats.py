"""The rows that tell who works: one per process, written by whoever looks after it."""

from __future__ import annotations

import resource
import socket
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import djqueue
from djqueue.conf import config
from djqueue.models import Worker
from djqueue.sql import statements

from .options import Options

INTERVAL = 5.0
FORGOTTEN_AFTER = timedelta(days=1)


@dataclass
class Life:
    """What is known of one worker process."""

    identity: str
    pid: int
    running: int = 0
    finished: int = 0
    memory: int = 0
    draining: bool = False
    stopped: bool = False
    told: bool = False  # that it stopped
    began: datetime | None = field(default=None)  # by the database's clock


class Heartbeats:
    """Writes the rows of all processes in one statement."""

    def __init__(self, options: Options, supervisor: str) -> None:
        self.options = options
        self.supervisor = supervisor
        self.host = socket.gethostname()[:255]

    def beat(self, lives: Iterable[Life]) -> None:
        untold = [life for life in lives if not life.told]
        now = statements().now()
        rows = [self._row(life, now) for life in untold]
        if rows:
            Worker.objects.using(config().database).bulk_create(
                rows,
                update_conflicts=True,
                update_fields=["running", "finished", "memory", "draining", "heartbeat_at", "stopped_at"],
                unique_fields=None if statements().connection.vendor == "mysql" else ["identity"],
            )
        for life, row in zip(untold, rows, strict=True):
            life.told = row.stopped_at is not None

    def _row(self, life: Life, now: datetime) -> Worker:
        life.began = life.began or now
        return Worker(
            identity=life.identity,
            name=self.options.name,
            supervisor=self.supervisor,
            host=self.host,
            pid=life.pid,
            queues=list(self.options.queues),  # type: ignore[misc]
            threads=self.options.threads,
            running=life.running,
            finished=life.finished,
            memory=life.memory,
            version=djqueue.__version__,
            draining=life.draining,
            started_at=life.began,
            heartbeat_at=now,
            stopped_at=now if life.stopped else None,
        )


def forget_old() -> int:
    """Delete the rows of processes that were last heard of a day ago."""
    old = Worker.objects.using(config().database).filter(heartbeat_at__lt=statements().now() - FORGOTTEN_AFTER)
    return old.delete()[0]


def resident_memory() -> int:
    """Bytes of this process that are in memory."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:  # not on Linux: the most that it ever had
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
