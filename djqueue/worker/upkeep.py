"""The loops beside the running of jobs: leases, scheduler, reaper, sweeps, heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from djqueue.declarations import valid_declarations

from .board import Board
from .duties import SWEEP_INTERVAL, Duties, Duty, maintenance_duties
from .heartbeats import INTERVAL, Heartbeats, Life, forget_old
from .leases import Leases, Tell
from .options import Options
from .pulse import Pulse
from .scheduler import Declared, Scheduler

HEARTBEAT = "heartbeat"


class Upkeep:
    """Starts and stops them together."""

    def __init__(
        self,
        options: Options,
        boards: Callable[[], Iterable[Board]],
        lives: Callable[[], Iterable[Life]],
        tell: Tell,
        declared: Declared = valid_declarations,
        supervisor: str = "",
    ) -> None:
        self.pulse = Pulse()
        self.lives = lives
        self.heartbeats = Heartbeats(options, supervisor)
        self.leases = Leases(boards, tell, self.pulse)
        duties = [Duty(HEARTBEAT, self.beat, INTERVAL)]
        self.loops: list[Leases | Duties | Scheduler] = [self.leases]
        if options.maintenance:
            duties += [*maintenance_duties(self.pulse), Duty("forgetting workers", forget_old, SWEEP_INTERVAL)]
            self.loops.append(Scheduler(self.pulse, declared if options.scheduler else None))
        self.duties = Duties(duties, self.pulse)
        self.loops.append(self.duties)

    def start(self) -> None:
        for loop in self.loops:
            loop.start()

    def stop(self) -> None:
        for loop in self.loops:
            loop.stop()

    def beat(self) -> None:
        self.heartbeats.beat(self.lives())

    def beat_soon(self) -> None:
        """Somebody came or went."""
        self.duties.hurry(HEARTBEAT)
