"""Queues and workers as they are now, for the overview, the terminal and stats.json."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from djqueue.core.records import QueueStats
from djqueue.models import QueueState, Worker
from djqueue.sql import counts, statements, workers


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSummary:
    queue: str
    pending: int = 0
    scheduled: int = 0
    blocked: int = 0  # waiting for a permit of their limit keys
    claimed: int = 0
    dead: int = 0
    done: int = 0  # all time
    paused: bool = False
    oldest_pending_seconds: float | None = None
    consumed: bool = False  # by a worker that is alive and claims jobs

    @property
    def waiting(self) -> int:
        return self.pending + self.scheduled + self.blocked


class WorkerState(TextChoices):
    ALIVE = "alive", _("alive")
    # Claims no jobs, at the request of an operator.
    QUIET = "quiet", _("quiet")
    # Finishes its jobs, then exits.
    DRAINING = "draining", _("draining")
    # Has sent no heartbeat, and no word that it exits.
    LOST = "lost", _("lost")
    STOPPED = "stopped", _("stopped")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSummary:
    identity: str
    name: str
    supervisor: str
    host: str
    pid: int
    queues: Any  # as stored; see djqueue.sql.workers.claims_from
    threads: int
    running: int
    finished: int
    memory: int
    state: WorkerState
    heartbeat_seconds: float
    uptime_seconds: float
    loops: dict[str, float]  # seconds since the last good turn of each loop

    @property
    def alive(self) -> bool:
        return self.state not in (WorkerState.LOST, WorkerState.STOPPED)


def queues() -> list[QueueSummary]:
    """Return every queue that ever had a job, sorted by name. Six statements, however many queues there are."""
    database = statements()
    now = database.now()
    stats = counts.overview(database)
    oldest = database.oldest_pending()
    states = QueueState.objects.using(database.alias)
    paused = set(states.filter(paused=True).values_list("queue", flat=True))
    consumers = list(workers.claiming(database).values_list("queues", flat=True))
    names = sorted({*stats, *paused})
    return [
        QueueSummary(
            queue=name,
            **asdict(stats.get(name, QueueStats())),
            paused=name in paused,
            oldest_pending_seconds=max(0.0, (now - oldest[name]).total_seconds()) if name in oldest else None,
            consumed=any(workers.claims_from(stored, name) for stored in consumers),
        )
        for name in names
    ]


def all_workers(*, stopped: bool = False, limit: int = 1000) -> list[WorkerSummary]:
    """Return the workers, latest heartbeat first: those that have not stopped, or all of the last day."""
    database = statements()
    rows = Worker.objects.using(database.alias).annotate(now=workers.clock(database)).order_by("-heartbeat_at")
    if not stopped:
        rows = rows.filter(stopped_at=None)
    return [worker_summary(row) for row in rows.defer("samples")[:limit]]


def worker_summary(row: Any) -> WorkerSummary:
    """Return the summary of a row that has the database's clock as `now`."""
    heartbeat = max(0.0, (row.now - row.heartbeat_at).total_seconds())
    loops = row.loops if isinstance(row.loops, dict) else {}
    return WorkerSummary(
        **{
            name: getattr(row, name)
            for name in ("identity", "name", "supervisor", "host", "pid", "queues", "threads", "finished", "memory")
        },
        running=row.running,
        state=worker_state(row),
        heartbeat_seconds=heartbeat,
        uptime_seconds=((row.stopped_at or row.now) - row.started_at).total_seconds(),
        loops={name: age + heartbeat for name, age in loops.items() if isinstance(age, int | float)},
    )


def worker_state(row: Any) -> WorkerState:
    """Return the state of a row that has the database's clock as `now`."""
    if row.stopped_at is not None:
        return WorkerState.STOPPED
    if (row.now - row.heartbeat_at).total_seconds() > workers.LOST_AFTER:
        return WorkerState.LOST
    if row.draining:
        return WorkerState.DRAINING
    return WorkerState.QUIET if row.quiet else WorkerState.ALIVE


def as_json() -> dict[str, Any]:
    """Return what `djqueue stats --json` and `stats.json` show."""
    shown = [field for field in QueueSummary.__slots__ if field != "consumed"]
    return {
        "queues": [{name: getattr(row, name) for name in shown} for row in queues()],
        "workers": [
            {
                "name": row.name or row.identity,
                "host": row.host,
                "pid": row.pid,
                "queues": row.queues,
                "running": row.running,
                "alive": row.alive,
                "heartbeat_seconds": round(row.heartbeat_seconds, 3),
            }
            for row in all_workers()
        ],
    }
