"""Whether jobs are being run, for probes and for `manage.py djqueue health`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, InterfaceError, connections

from djqueue.conf import config
from djqueue.sql import statements
from djqueue.sql.workers import STALLED_AFTER

from . import attention, summary
from .bounded import bounded_connection, hung_up_after
from .summary import WorkerState, WorkerSummary

# Seconds until a database that does not answer is given up; connecting may take as long again.
ANSWER_WITHIN = 3.0
TABLES = ("job", "donejob", "deadjob", "kv", "schedule", "worker", "queuestate", "throughput")
NO_WORKER = "No live worker claims jobs. Start one with manage.py runworker."
STALLED = "Every live worker that claims jobs has a loop without a good turn for more than {:g} s."


@dataclass(frozen=True, slots=True)
class Health:
    problems: list[str] = field(default_factory=list)
    workers: list[WorkerSummary] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """Return what `djqueue health --json` shows. The values of `loops` are seconds since the last good turn."""
        return {
            "ready": self.ready,
            "problems": self.problems,
            "workers": [
                {
                    "name": row.name or row.identity,
                    "host": row.host,
                    "pid": row.pid,
                    "state": row.state.value,
                    "heartbeat_seconds": round(row.heartbeat_seconds, 3),
                    "loops": {name: round(age, 3) for name, age in row.loops.items()},
                }
                for row in self.workers
            ],
        }


def check() -> Health:
    """Return whether the database answers, the tables exist, and a live worker claims jobs and is not stalled.

    It returns within a few seconds, also while the database hangs.
    """
    try:
        alias = config().database
        with bounded_connection(alias), hung_up_after(ANSWER_WITHIN, connections[alias]):
            _read_tables()
            workers = summary.all_workers()
    except (DatabaseError, InterfaceError, ImproperlyConfigured) as error:
        return Health([f"{type(error).__name__}: {str(error).strip()}"])
    return Health(_problems(workers), workers)


def _read_tables() -> None:
    """Raise if a table does not exist."""
    statements().fetch(" UNION ALL ".join(f"SELECT 1 FROM djqueue_{name} WHERE 1 = 0" for name in TABLES))


def _problems(workers: list[WorkerSummary]) -> list[str]:
    claiming = [row for row in workers if row.state is WorkerState.ALIVE and row.queues is not False]
    if not claiming:
        return [NO_WORKER]
    stalled = {finding.key for finding in attention.stalled_loops(claiming)}
    return [STALLED.format(STALLED_AFTER)] if len(stalled) == len(claiming) else []
