"""A queue by name."""

from __future__ import annotations

from uuid import UUID

from . import counters
from .conf import config, whole
from .durations import Duration
from .lifecycle import claim as claiming
from .lifecycle import pause as pausing
from .lifecycle import sweep
from .lifecycle import wait as waiting
from .lifecycle.claim import ClaimedJob
from .options import check_queue, job_id
from .records import JobRecord, QueueStats
from .sql import statements
from .twins import twin


class Queue:
    """Claim from a queue, look at it, steer it."""

    def __init__(self, name: str) -> None:
        check_queue(name)
        self.name = name

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

    @property
    def lease(self) -> float:
        """The configured length of a lease, in seconds."""
        return config().lease_for(self.name)

    def claim(self, limit: int = 1, lease: Duration | None = None) -> list[ClaimedJob]:
        """Claim at most `limit` pending jobs, best first."""
        return claiming.claim({self.name: limit}, lease=lease)

    def claim_wait(
        self, timeout: Duration | None = None, limit: int = 1, lease: Duration | None = None
    ) -> list[ClaimedJob]:
        """Claim as soon as there is something; [] when the time is over."""
        return waiting.until(lambda: self.claim(limit, lease), self.name, timeout)

    async def aclaim_wait(
        self, timeout: Duration | None = None, limit: int = 1, lease: Duration | None = None
    ) -> list[ClaimedJob]:
        """The async twin of `claim_wait`."""
        return await waiting.auntil(lambda: self.claim(limit, lease), self.name, timeout)

    def stats(self) -> QueueStats:
        return counters.stats(self.name)

    def dead_jobs(self, after: UUID | str | None = None, limit: int = 100) -> list[JobRecord]:
        """Dead jobs in the order of their ids, beginning behind `after`."""
        if whole(limit, "limit", 0) == 0:
            return []
        return statements().dead_jobs(self.name, None if after is None else job_id(after), limit)

    def clear_dead(self) -> int:
        """Delete every dead job of this queue; returns how many."""
        return sweep.clear_dead(self.name)

    def pause(self) -> None:
        """Give out no more jobs; those that run go on."""
        pausing.pause(self.name)

    def resume(self) -> None:
        pausing.resume(self.name)

    @property
    def paused(self) -> bool:
        return pausing.is_paused(self.name)

    aclaim = twin(claim)
    astats = twin(stats)
    adead_jobs = twin(dead_jobs)
    aclear_dead = twin(clear_dead)
    apause = twin(pause)
    aresume = twin(resume)
