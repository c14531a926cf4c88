"""The threads of a supervisor that keep jobs safe: leases, scheduler, reaper, sweeps, heartbeats, requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from djqueue import maintenance
from djqueue.schedules.in_code import valid_declarations
from djqueue.sql.workers import HEARTBEAT_INTERVAL
from djqueue.worker.held_jobs import HeldJobs
from djqueue.worker.options import Options
from djqueue.worker.outages import Outages
from djqueue.worker.threads import Fatal

from .heartbeats import Heartbeats, ProcessStatus, delete_old
from .leases import Leases, UpdateCallback
from .periodic import Periodic, PeriodicThread
from .reaper import Reaper
from .requests import Obey, Requests
from .scheduler import Declared, Scheduler

SWEEP_INTERVAL = 60.0
HEARTBEAT = "heartbeat"


class Background:
    """Start and stop these threads together."""

    def __init__(
        self,
        options: Options,
        held_jobs: Callable[[], Iterable[HeldJobs]],
        statuses: Callable[[], Iterable[ProcessStatus]],
        update_jobs: UpdateCallback,
        obey: Obey,
        fatal: Fatal,
        declared: Declared = valid_declarations,
        supervisor: str = "",
    ) -> None:
        self.outages = Outages(fatal)
        self.statuses = statuses
        self.heartbeats = Heartbeats(options, supervisor, self.ages)
        self.leases = Leases(held_jobs, update_jobs, self.outages, fatal)
        works = [Requests(statuses, obey).periodic, Periodic(HEARTBEAT, self.beat, HEARTBEAT_INTERVAL)]
        self.turns = {"leases": [self.leases.turns]}  # of each loop; the sweeps count as one
        self.loops: list[Outages | Leases | PeriodicThread | Scheduler] = [self.outages, self.leases]
        if options.maintenance:
            # Each sweep on its own, so that a failure of one does not skip the others.
            sweeps = [
                maintenance.sweep_done,
                maintenance.sweep_dead,
                maintenance.sweep_kv,
                maintenance.sweep_limits,
                maintenance.roll_up,
            ]
            reaping = Reaper(self.outages).periodic
            sweeping = [Periodic(sweep.__name__, sweep, SWEEP_INTERVAL) for sweep in [*sweeps, delete_old]]
            works += [reaping, *sweeping]
            scheduler = Scheduler(self.outages, declared if options.scheduler else None, fatal)
            self.loops.append(scheduler)
            self.turns |= {"reaper": [reaping.turns], "scheduler": [scheduler.turns]}
            self.turns |= {"sweeps": [sweep.turns for sweep in sweeping]}
        self.periodic = PeriodicThread(works, self.outages, fatal)
        self.loops.append(self.periodic)

    def start(self) -> None:
        for loop in self.loops:
            loop.start()

    def stop(self) -> None:
        for loop in self.loops:
            loop.stop()

    def beat(self) -> None:
        self.heartbeats.beat(self.statuses())

    def ages(self) -> dict[str, float]:
        """Return the seconds since the last good turn of each loop; the heartbeat itself is in `heartbeat_at`."""
        return {name: max(one.age for one in turns) for name, turns in self.turns.items()}

    def beat_soon(self) -> None:
        """Write the heartbeats now, because a process has started, exited, or obeyed a request."""
        self.periodic.run_now(HEARTBEAT)
