"""What a task can ask of its own job while it runs."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from . import payload
from .exceptions import Cancelled, DjqueueError, LeaseLost
from .lifecycle.claim import ClaimedJob


@dataclass(eq=False)
class Holding:
    """A claimed job in a worker's hands, and what the worker has learnt of it since the claim."""

    job: ClaimedJob
    coroutine: bool = False
    unknown: bool = False  # no task here has its name
    place: int = 0  # on the board
    submitted: bool = False
    started: bool = False
    started_at: float = 0.0  # monotonic
    seconds: float = 0.0  # that it ran
    reported: bool = False  # its outcome is with the completer
    lost: bool = False
    cancel_requested: bool = field(init=False)
    claim: tuple[UUID, UUID] = field(init=False)
    progress: str | None = None  # not yet written

    def __post_init__(self) -> None:
        self.cancel_requested = self.job.cancel_requested
        self.claim = (self.job.id, self.job.token)


class CurrentJob:
    """The job that is running here."""

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        job = holding.job
        self.id: UUID = job.id
        self.task: str = job.task
        self.queue: str = job.queue
        self.attempt: int = job.attempt
        self.max_attempts: int = job.max_attempts
        self.headers: dict[str, Any] = job.headers
        self.schedule: str | None = job.row.schedule
        self.slot: datetime | None = job.row.slot

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody asked for the end of this job; a second or less after they did."""
        return self._holding.cancel_requested

    def raise_if_cancelled(self) -> None:
        """End here, as cancelled, if that was asked for; raises LeaseLost when the job is no longer ours."""
        if self._holding.lost:
            raise LeaseLost(f"job {self.id} is no longer ours")
        if self._holding.cancel_requested:
            raise Cancelled

    def progress(self, done: float, total: float, message: str = "") -> None:
        """Tell how far it is. Written by the worker, once a second at most, and never on the task's own connection."""
        self._holding.progress = payload.encode({"done": done, "total": total, "message": message}, "progress")


_current: ContextVar[CurrentJob | None] = ContextVar("djqueue_current_job", default=None)


def current_job() -> CurrentJob:
    """The job that runs this code; raises DjqueueError outside of one."""
    job = _current.get()
    if job is None:
        raise DjqueueError("there is no current job: this code is not run by a worker")
    return job
