"""The messages between the supervisor and its worker processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from djqueue.lifecycle.announce import Relayed
from djqueue.lifecycle.claim import ClaimedJob

from .held_jobs import Claim

QUARANTINE = 0  # the number of the quarantine process, and of its part of the shared memory


# From the supervisor to a worker process


@dataclass(frozen=True, slots=True)
class Quiet:
    """Claim no more jobs, or claim again. The first order to every process, which waits for it before it claims."""

    quiet: bool


@dataclass(frozen=True, slots=True)
class Drain:
    """Stop claiming, and exit when running jobs have ended, or after this many seconds."""

    reason: str
    within: float | None = None


@dataclass(frozen=True, slots=True)
class UpdateJobs:
    """Cancel requests and lost leases of jobs that the process holds."""

    cancelled: Sequence[Claim]
    lost: Sequence[Claim]


@dataclass(frozen=True, slots=True)
class SendSignal:
    """Send a signal of Django: the supervisor has not imported the project, and so has no receivers."""

    relayed: Relayed


@dataclass(frozen=True, slots=True)
class TakeJob:
    """Run a job that another process has claimed."""

    job: ClaimedJob


Order = Quiet | Drain | UpdateJobs | SendSignal | TakeJob


# From a worker process to the supervisor


@dataclass(frozen=True, slots=True)
class Report:
    """The state of a worker process, sent once a second and when something has changed."""

    identity: str
    pid: int
    finished: int
    memory: int
    quiet: bool
    draining: bool
    signals_sent: int  # for the supervisor, since the last report
    taken: int  # jobs that the process took by TakeJob, in all
    progress: dict[Claim, str] = field(default_factory=dict)
    loops: dict[str, float] = field(default_factory=dict)  # seconds since the last good turn of each loop


@dataclass(frozen=True, slots=True)
class Suspect:
    """A suspect, handed over to the supervisor."""

    job: ClaimedJob


Message = Report | Suspect
