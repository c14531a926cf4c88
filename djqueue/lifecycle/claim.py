"""Claim pending jobs under a lease."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID, uuid4

from asgiref.sync import sync_to_async

from djqueue.conf import whole
from djqueue.core import registry
from djqueue.core.async_twins import twin
from djqueue.core.durations import Duration, seconds
from djqueue.core.identity import identity
from djqueue.core.options import resolve
from djqueue.core.payload import decode, has_models, load
from djqueue.core.records import ClaimedRow, ClaimRequest, Mark, waited
from djqueue.sql import statements

from . import announce, lease, settle

MOST = 1_000_000  # jobs in one claim
MOST_QUEUES = 400  # queues in one statement: SQLite takes 500 SELECTs


@dataclass
class ClaimedJob:
    """A job that the caller holds until its lease expires. Every method names the claim's token."""

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
    lease: float  # seconds, as claimed
    row: ClaimedRow = field(repr=False)
    token: UUID = field(repr=False)
    worker: str = field(repr=False)
    clock: float = field(repr=False, default_factory=time.monotonic)  # the host's clock at claimed_at

    @cached_property
    def args(self) -> list[Any]:
        """The positional arguments. Model instances are read from the database at the first access."""
        return load(self.row.args)  # type: ignore[no-any-return]

    @cached_property
    def kwargs(self) -> dict[str, Any]:
        """The named arguments. Model instances are read from the database at the first access."""
        return load(self.row.kwargs)  # type: ignore[no-any-return]

    async def aload(self) -> None:
        """Read the model instances in the arguments, if there are any, so that `args` and `kwargs` make no query."""
        if has_models(self.row.args) or has_models(self.row.kwargs):
            await sync_to_async(lambda: (self.args, self.kwargs))()

    @property
    def raw_args(self) -> str:
        """The positional arguments as the stored JSON text."""
        return self.row.args

    @property
    def raw_kwargs(self) -> str:
        """The keyword arguments as the stored JSON text."""
        return self.row.kwargs

    @cached_property
    def headers(self) -> dict[str, Any]:
        return decode(self.row.headers)  # type: ignore[no-any-return]

    @property
    def elapsed(self) -> float:
        """Seconds since the claim."""
        return time.monotonic() - self.clock

    @property
    def waited(self) -> float:
        """Seconds between the moment the job was due and the claim."""
        return waited(self.run_at, self.enqueued_at, self.claimed_at)

    def now(self) -> datetime:
        """Return the database's clock, estimated without a query."""
        return self.claimed_at + timedelta(seconds=self.elapsed)

    def ack(self, result: Any = None) -> None:
        """Report success. Like all other methods, raise LeaseLost and change nothing if the lease is lost."""
        settle.settle_one(self, settle.ack(self, result))

    def nack(self, error: BaseException | str, *, delay: Duration | None = None) -> None:
        """Report a failed attempt: retry by the policy or after `delay`; the job becomes dead if no attempt is left."""
        settle.settle_one(self, settle.nack(self, error, delay=delay))

    def dead_letter(self, reason: BaseException | str) -> None:
        """Report that the job can never succeed: it becomes dead, whatever attempts are left."""
        settle.settle_one(self, settle.dead_letter(self, reason))

    def snooze(self, delay: Duration) -> None:
        """Run the job again after `delay`. The attempt is not counted."""
        settle.settle_one(self, settle.snooze(self, delay))

    def release(self) -> None:
        """Make the job pending immediately. The attempt is not counted."""
        settle.settle_one(self, settle.release(self))

    def renew(self, seconds: Duration | None = None) -> None:
        """Extend the lease, counted from now."""
        lease.renew(self, seconds)

    def progress(self, done: float, total: float, message: str = "") -> None:
        """Store the progress of the job."""
        lease.progress(self, done, total, message)

    def wait_for_cancel(self, timeout: Duration | None = None) -> bool:
        """Poll until a cancel is requested or the timeout is reached; return whether a cancel was requested.

        Raise LeaseLost as soon as the lease is lost. The lease is not renewed in the meantime.
        """
        return lease.wait_for_cancel(self, timeout)

    async def await_for_cancel(self, timeout: Duration | None = None) -> bool:
        """Async variant of `wait_for_cancel`."""
        return await lease.await_for_cancel(self, timeout)

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
    begin: int | None = None,
    marks: Mapping[str, Mark] | None = None,
    token: UUID | None = None,
) -> list[ClaimedJob]:
    """Claim at most `wants[queue]` jobs of each queue, `limit` in total, best first, and none of paused queues.

    The best `begin` of them are marked as started, all by default. The others must be marked before they begin: a row
    without the mark is certain not to run, and its attempt is given back if its holder is lost.

    `marks` may name a place in a queue before which no job of the same priority is known to wait. On PostgreSQL, the
    index scan for the first pending job begins there.

    A caller that passes a `token` and gets no response can give back the jobs that the claim may have taken
    (crash.release_claims).

    Queues are claimed from in groups of MOST_QUEUES, until a group has returned jobs: call it again for the others.
    """
    for queue, count in wants.items():
        whole(count, f"the limit of queue {queue!r}", 0, MOST)
    wants = {queue: count for queue, count in wants.items() if count}
    if not wants or (limit is not None and limit <= 0):
        return []
    claimed: list[ClaimedJob] = []
    queues = list(wants)
    for start in range(0, len(queues), MOST_QUEUES):
        part = {queue: wants[queue] for queue in queues[start : start + MOST_QUEUES]}
        request = _request(part, limit, lease, worker, begin, marks or {}, token)
        claimed = [_claimed_job(row, request) for row in statements().claim(request)]
        # Stop after the first part that returned jobs: if the next part failed, no process would know of them.
        if claimed:
            break
    if begin is None:
        announce.started(claimed)
    return claimed


def _request(
    wants: Mapping[str, int],
    limit: int | None,
    lease: Duration | None,
    worker: str | None,
    begin: int | None,
    marks: Mapping[str, Mark],
    token: UUID | None,
) -> ClaimRequest:
    return ClaimRequest(
        wants=wants,
        marks=marks,
        limit=sum(wants.values()) if limit is None else limit,
        leases={queue: resolve("lease", queue) for queue in wants},
        task_leases=registry.task_leases(),
        lease=None if lease is None else seconds(lease, "lease"),
        token=token or uuid4(),
        worker=worker or identity(),
        begin=MOST if begin is None else begin,
    )


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
