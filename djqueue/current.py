"""`current_job()`: the interface of a running task to its own job."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from .core.durations import Duration
from .exceptions import Cancelled, DjqueueError, LeaseLost
from .lifecycle.claim import ClaimedJob
from .lifecycle.lease import encode_progress
from .waiting.wait import Deadline, async_event, wait_for

# A timeout is raised between two steps of the task's Python code, so no single call may block for longer than this.
LONGEST_BLOCK = 0.2


class HeldJob(Protocol):
    """The interface that a worker provides to a job that it runs."""

    job: ClaimedJob
    cancel_requested: bool
    lost: bool  # the lease is lost, and another worker may run the job
    progress: str | None  # not yet written
    decision: tuple[BaseException, Duration | None] | None  # an error, and when to retry after it: None for never

    def waking(self, wake: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `wake` whenever a cancel is requested or the lease is lost; it must not block."""


class CurrentJob:
    """The job that is running the calling code."""

    def __init__(self, held: HeldJob) -> None:
        self._held = held

    @property
    def id(self) -> UUID:
        """The id of the job."""
        return self._held.job.id

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._held.job.task

    @property
    def queue(self) -> str:
        """The name of its queue."""
        return self._held.job.queue

    @property
    def attempt(self) -> int:
        """The number of this attempt; the first one is 1."""
        return self._held.job.attempt

    @property
    def max_attempts(self) -> int:
        """How many attempts there may be."""
        return self._held.job.max_attempts

    @property
    def schedule(self) -> str | None:
        """The name of the schedule that created the job."""
        return self._held.job.row.schedule

    @property
    def slot(self) -> datetime | None:
        """The time for which the schedule created the job."""
        return self._held.job.slot

    @property
    def headers(self) -> dict[str, Any]:
        """The headers given when the job was enqueued, and those that HEADERS added."""
        return self._held.job.headers

    @property
    def cancel_requested(self) -> bool:
        """True within a second after a cancel of this job was requested."""
        return self._held.cancel_requested

    def raise_if_cancelled(self) -> None:
        """Raise Cancelled if a cancel was requested, and LeaseLost if another worker may run the job."""
        if self._is_cancelled():
            raise Cancelled

    def wait_for_cancel(self, timeout: Duration | None = None) -> bool:
        """Block until a cancel is requested or the timeout is reached; return whether a cancel was requested.

        Raise LeaseLost as soon as the lease is lost. Without a timeout, wait forever.
        """
        deadline = Deadline(timeout)
        # Unlike other ways to wake up a thread, this one leaves no lock behind if a timeout is raised in the thread.
        wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()
        with self._held.waking(lambda: wakeups.put(None)):
            while not self._is_cancelled() and not deadline.is_over():
                with suppress(queue.Empty):
                    wakeups.get(timeout=deadline.remaining_up_to(LONGEST_BLOCK))
        return self.cancel_requested

    async def await_for_cancel(self, timeout: Duration | None = None) -> bool:
        """Async variant of `wait_for_cancel`. In a coroutine task, a cancel request also raises CancelledError."""
        deadline = Deadline(timeout)
        with async_event() as (event, wake), self._held.waking(wake):
            while not self._is_cancelled() and not deadline.is_over():
                await wait_for(event, deadline.remaining())
        await asyncio.sleep(0)  # if the cancel is already on its way, it is raised here
        return self.cancel_requested

    def _is_cancelled(self) -> bool:
        if self._held.lost:
            raise LeaseLost(f"The lease on job {self.id} is lost.")
        return self._held.cancel_requested

    def progress(self, done: float, total: float, message: str = "") -> None:
        """Report progress. The worker writes it at most once a second, and never on the task's own connection."""
        self._held.progress = encode_progress(done, total, message)


_current: ContextVar[CurrentJob | None] = ContextVar("djqueue_current_job", default=None)


def current_job() -> CurrentJob:
    """Return the job that is running the calling code. Raise DjqueueError outside of a job."""
    job = _current.get()
    if job is None:
        raise DjqueueError("There is no current job: call current_job() only in a task that a worker runs.")
    return job
