"""Queues: claim from, count, pause and clear a queue, and list all queues."""

from __future__ import annotations

from uuid import UUID

from asgiref.sync import sync_to_async

from .conf import whole
from .core.async_twins import twin
from .core.durations import Duration
from .core.options import check_queue, job_id, resolve
from .core.records import JobRecord, QueueStats
from .lifecycle import claim as claiming
from .lifecycle import pause as pausing
from .lifecycle import sweep
from .lifecycle.claim import ClaimedJob
from .sql import counts, statements
from .waiting import wait as waiting


class Queue:
    """A queue by name: claim its jobs, count them, pause and resume it."""

    def __init__(self, name: str) -> None:
        check_queue(name)
        self.name = name

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

    @property
    def lease(self) -> float:
        """The configured lease in seconds."""
        return float(resolve("lease", self.name))

    def claim(self, limit: int = 1, lease: Duration | None = None) -> list[ClaimedJob]:
        """Claim at most `limit` pending jobs, by priority and age."""
        return claiming.claim({self.name: limit}, lease=lease)

    def claim_wait(
        self, timeout: Duration | None = None, limit: int = 1, lease: Duration | None = None
    ) -> list[ClaimedJob]:
        """Claim jobs as soon as any are pending; return [] if the timeout is reached first."""
        return waiting.until(lambda: self.claim(limit, lease), self.name, timeout)

    async def aclaim_wait(
        self, timeout: Duration | None = None, limit: int = 1, lease: Duration | None = None
    ) -> list[ClaimedJob]:
        """Async variant of `claim_wait`."""
        return await waiting.auntil(lambda: self.claim(limit, lease), self.name, timeout)

    def stats(self) -> QueueStats:
        """Return the exact counts of this queue."""
        return stats(self.name)

    def dead_jobs(self, after: UUID | str | None = None, limit: int = 100, payload: bool = True) -> list[JobRecord]:
        """Return dead jobs in the order of their ids, starting after `after`.

        Without `payload`, args, kwargs, headers, errors and progress are not read from the database, and are empty.
        """
        if whole(limit, "limit", 0) == 0:
            return []
        return statements().dead_jobs(self.name, None if after is None else job_id(after), limit, payload)

    def clear_dead(self) -> int:
        """Delete all dead jobs of this queue and return their number."""
        return sweep.clear_dead(self.name)

    def pause(self) -> None:
        """Stop claims from this queue; claimed jobs continue."""
        pausing.pause(self.name)

    def resume(self) -> None:
        """Allow claims from this queue again."""
        pausing.resume(self.name)

    @property
    def paused(self) -> bool:
        """Whether the queue is paused."""
        return pausing.is_paused(self.name)

    aclaim = twin(claim)
    astats = twin(stats)
    adead_jobs = twin(dead_jobs)
    aclear_dead = twin(clear_dead)
    apause = twin(pause)
    aresume = twin(resume)

    async def apaused(self) -> bool:
        """Async variant of `paused`."""
        return await sync_to_async(pausing.is_paused)(self.name)


def stats(queue: str) -> QueueStats:
    """Return the exact counts of one queue, in one consistent read."""
    check_queue(queue)
    return counts.stats(statements(), queue)


def queues() -> list[str]:
    """Return the names of all queues that have ever had a job, sorted."""
    return counts.names(statements())


astats = twin(stats)
aqueues = twin(queues)
