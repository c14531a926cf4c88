"""Claim pending jobs under a lease."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from asgiref.sync import sync_to_async

from djqueue.conf import whole
from djqueue.core import registry
from djqueue.core.async_twins import twin
from djqueue.core.durations import Duration, instant, seconds
from djqueue.core.identity import identity
from djqueue.core.options import resolve
from djqueue.core.payload import decode, has_models, load
from djqueue.core.records import ClaimedRow, ClaimRequest, Mark
from djqueue.sql import statements

from . import announce, lease, settle

if TYPE_CHECKING:
    from functools import cached_property  # known to type checkers without the stubs of Django
else:
    from django.utils.functional import cached_property  # without a lock, which Python 3.11's takes for each access

MOST = 1_000_000  # jobs in one claim
MOST_QUEUES = 400  # queues in one statement: SQLite takes 500 SELECTs


class ClaimedJob:
    """A job that the caller holds until its lease expires. Every method names the claim's token.

    A worker claims hundreds at once: what few of them need is made when it is read.
    """

    def __init__(self, row: ClaimedRow, token: UUID, worker: str, clock: float) -> None:
        self.row = row
        self.token = token
        self.worker = worker
        self.clock = clock  # the host's clock at claimed_at
        self.id: UUID = row.id
        self.task: str = row.task
        self.queue: str = row.queue
        self.attempt: int = row.attempts
        self.max_attempts: int = row.max_attempts
        self.cancel_requested: bool = row.cancel_requested
        self.lease: float = round(row.lease_expires_at - row.claimed_at, 6)  # seconds, as claimed

    def __repr__(self) -> str:
        attempt = f"{self.attempt}/{self.max_attempts}"
        return f"<ClaimedJob {self.id} task={self.task} queue={self.queue} attempt={attempt}>"

    @property
    def priority(self) -> int:
        """The priority of the job; lower runs first."""
        return self.row.priority

    @property
    def last_error(self) -> str:
        """The error of the previous attempt."""
        return self.row.last_error

    @cached_property
    def enqueued_at(self) -> datetime:
        """When the job was enqueued."""
        return instant(self.row.enqueued_at)

    @cached_property
    def run_at(self) -> datetime:
        """When the job was due."""
        return instant(self.row.run_at)

    @cached_property
    def claimed_at(self) -> datetime:
        """When the job was claimed."""
        return instant(self.row.claimed_at)

    @cached_property
    def lease_expires_at(self) -> datetime:
        """When the lease expires; `renew` changes it."""
        return instant(self.row.lease_expires_at)

    @cached_property
    def slot(self) -> datetime | None:
        """The time for which a schedule created the job."""
        return None if self.row.slot is None else instant(self.row.slot)

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
        """The headers given when the job was enqueued, and those that HEADERS added."""
        return decode(self.row.headers)  # type: ignore[no-any-return]

    @property
    def elapsed(self) -> float:
        """Seconds since the claim."""
        return time.monotonic() - self.clock

    @property
    def waited(self) -> float:
        """Seconds between the moment the job was due and the claim."""
        row = self.row
        return max(0.0, row.claimed_at - max(row.run_at, row.enqueued_at))

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
        rows, clock = statements().claim(request), time.monotonic()
        claimed = [ClaimedJob(row, request.token, request.worker, clock) for row in rows]
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
