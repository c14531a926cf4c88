"""Take pending jobs under a lease."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID, uuid4

from djqueue import registry
from djqueue.conf import config, whole
from djqueue.durations import Duration, seconds
from djqueue.identity import identity
from djqueue.payload import decode
from djqueue.records import ClaimedRow, ClaimRequest, waited
from djqueue.sql import statements
from djqueue.twins import twin

from . import announce, lease, settle

MOST = 1_000_000  # jobs in one claim


@dataclass
class ClaimedJob:
    """A job in our hands until its lease ends; every act on it names the claim's token."""

    id: UUID
    task: str
    queue: str
    priority: int
    attempt: int
    max_attempts: int
    last_error: str  # of the previous attempt
    enqueued_at: datetime
    run_at: datetime
    claimed_at: datetime
    lease_expires_at: datetime
    cancel_requested: bool
    lease: float  # seconds, as it was claimed for
    row: ClaimedRow = field(repr=False)
    token: UUID = field(repr=False)
    worker: str = field(repr=False)
    clock: float = field(repr=False, default_factory=time.monotonic)  # when claimed_at was

    @cached_property
    def args(self) -> list[Any]:
        return decode(self.row.args)  # type: ignore[no-any-return]

    @cached_property
    def kwargs(self) -> dict[str, Any]:
        return decode(self.row.kwargs)  # type: ignore[no-any-return]

    @cached_property
    def headers(self) -> dict[str, Any]:
        return decode(self.row.headers)  # type: ignore[no-any-return]

    @property
    def elapsed(self) -> float:
        """Seconds since the claim."""
        return time.monotonic() - self.clock

    @property
    def waited(self) -> float:
        """Seconds between the moment it was due and the claim."""
        return waited(self.run_at, self.enqueued_at, self.claimed_at)

    def now(self) -> datetime:
        """The database's clock, as far as it can be told without asking."""
        return self.claimed_at + timedelta(seconds=self.elapsed)

    def ack(self, result: Any = None) -> None:
        """It succeeded. Raises LeaseLost, and changes nothing, when the job is no longer ours; so do all the others."""
        settle.settle_one(self, settle.ack(self, result))

    def nack(self, error: BaseException | str, *, delay: Duration | None = None) -> None:
        """This attempt failed: retry by the policy (or after `delay`), or die when no attempt is left."""
        settle.settle_one(self, settle.nack(self, error, delay=delay))

    def dead_letter(self, reason: BaseException | str) -> None:
        """It can never succeed: into the dead letters, whatever attempts are left."""
        settle.settle_one(self, settle.dead_letter(self, reason))

    def snooze(self, delay: Duration) -> None:
        """Come back later; the attempt is not spent."""
        settle.settle_one(self, settle.snooze(self, delay))

    def release(self) -> None:
        """Give it back at once; the attempt is not spent."""
        settle.settle_one(self, settle.release(self))

    def renew(self, seconds: Duration | None = None) -> None:
        """Extend the lease, counted from now."""
        lease.renew(self, seconds)

    def progress(self, done: float, total: float, message: str = "") -> None:
        """Tell how far it is."""
        lease.progress(self, done, total, message)

    aack = twin(ack)
    anack = twin(nack)
    adead_letter = twin(dead_letter)
    asnooze = twin(snooze)
    arelease = twin(release)
    arenew = twin(renew)
    aprogress = twin(progress)


def claim(
    wants: Mapping[str, int],
    *,
    limit: int | None = None,
    lease: Duration | None = None,
    worker: str | None = None,
    started: bool = True,
) -> list[ClaimedJob]:
    """Claim at most `wants[queue]` jobs of each queue, `limit` in all, best first; paused queues give nothing."""
    for queue, count in wants.items():
        whole(count, f"the limit of queue {queue!r}", 0, MOST)
    wants = {queue: count for queue, count in wants.items() if count}
    if not wants or (limit is not None and limit <= 0):
        return []
    settings = config()
    request = ClaimRequest(
        wants=wants,
        limit=sum(wants.values()) if limit is None else limit,
        leases={queue: settings.lease_for(queue) for queue in wants},
        task_leases=registry.task_leases(),
        lease=None if lease is None else seconds(lease, "lease"),
        token=uuid4(),
        worker=worker or identity(),
        started=started,
    )
    claimed = [_claimed_job(row, request) for row in statements().claim(request)]
    if started:
        announce.started(claimed)
    return claimed


def _claimed_job(row: ClaimedRow, request: ClaimRequest) -> ClaimedJob:
    return ClaimedJob(
        id=row.id,
        task=row.task,
        queue=row.queue,
        priority=row.priority,
        attempt=row.attempts,
        max_attempts=row.max_attempts,
        last_error=row.last_error,
        enqueued_at=row.enqueued_at,
        run_at=row.run_at,
        claimed_at=row.claimed_at,
        lease_expires_at=row.lease_expires_at,
        cancel_requested=row.cancel_requested,
        lease=(row.lease_expires_at - row.claimed_at).total_seconds(),
        row=row,
        token=request.token,
        worker=request.worker,
    )
