"""Plain data passed between the layers. A request and its response are paired by name: Renew and Renewed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from djqueue.states import CancelOutcome, Outcome, Status, Verdict

from .limits import Numbers


class NewJob(NamedTuple):
    """A job to be inserted; JSON columns are encoded already. A tuple, because thousands are made at once.

    The jobs of a batch usually differ in the first three fields alone; see SHARED.
    """

    id: UUID
    args: str
    kwargs: str
    task: str
    queue: str
    priority: int
    max_attempts: int
    headers: str = "{}"
    delay: float = 0.0
    run_at: datetime | None = None
    own_id: bool = False
    dedup_key: str | None = None
    dedup_until: str = "claimed"
    place: float = 0.0  # seconds added to the time of the statement, to keep the order of a batch
    retry: str | None = None
    timeout: float | None = None
    lease: float | None = None
    schedule: str | None = None
    slot: datetime | None = None
    limit_key: str | None = None
    replace: bool = False  # a waiting job that holds the dedup key gets the arguments and the time of this one
    max_wait: float | None = None  # seconds from its enqueued_at by which such a job must be due

    def __repr__(self) -> str:  # without the arguments, which may be sensitive
        return f"NewJob(id={self.id}, task={self.task!r}, queue={self.queue!r})"


SHARED = slice(NewJob._fields.index("task"), None)  # what jobs of one task usually have in common


class Inserted(NamedTuple):
    """The row of a NewJob, and whether this call created it or found it by its dedup key."""

    id: UUID
    created: bool
    status: Status
    run_at: datetime
    enqueued_at: datetime


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as it was when it was read, whatever table it is in. Model instances are ModelReferences."""

    id: UUID
    task: str
    queue: str
    status: Status
    args: list[Any] = field(repr=False)
    kwargs: dict[str, Any] = field(repr=False)
    headers: dict[str, Any]
    priority: int
    attempts: int
    max_attempts: int
    run_at: datetime
    enqueued_at: datetime
    started_at: datetime | None = None  # first attempt
    last_attempted_at: datetime | None = None
    claimed_at: datetime | None = None
    lease_expires_at: datetime | None = None
    completed_at: datetime | None = None
    failed_at: datetime | None = None
    last_error: str = ""
    errors: list[dict[str, Any]] = field(default_factory=list)
    result: Any = None
    progress: dict[str, Any] | None = None
    cancel_requested: bool = False
    dedup_key: str | None = None
    worker_ids: list[str] = field(default_factory=list)  # one per attempt
    schedule: str | None = None
    slot: datetime | None = None
    limit_key: str | None = None


class ClaimedRow(NamedTuple):
    """A claimed job as it is stored: its JSON is still encoded, and its instants are seconds since the epoch.

    A worker reads hundreds of rows at once and few of their values, so ClaimedJob converts what is asked for.
    """

    id: UUID
    task: str
    queue: str
    args: str
    kwargs: str
    headers: str
    priority: int
    attempts: int
    max_attempts: int
    last_error: str
    enqueued_at: float
    run_at: float
    claimed_at: float
    lease_expires_at: float
    cancel_requested: bool
    retry: str | None
    timeout: float | None
    unknown_since: float | None
    crashes: int
    schedule: str | None
    slot: float | None
    started_at: float
    dedup_key: str | None
    worker_ids: str
    limit_key: str | None

    def __repr__(self) -> str:
        return f"ClaimedRow(id={self.id}, task={self.task!r}, attempts={self.attempts})"


class Mark(NamedTuple):
    """The place of a job in its queue."""

    priority: int
    enqueued_at: datetime
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Which jobs to claim, for which worker and for how long."""

    wants: Mapping[str, int]  # queue → maximum number of its jobs
    limit: int
    leases: Mapping[str, float]  # queue → seconds
    task_leases: Mapping[str, float]  # task → seconds, of tasks that have the option
    lease: float | None  # given by the caller of claim(); overrides all others
    token: UUID
    worker: str
    marks: Mapping[str, Mark]  # queue → the place of its first pending job, if known
    begin: int  # the number of best jobs that start immediately; only their rows are marked as `started`

    def lease_of(self, task: str, queue: str, own: float | None) -> float:
        """Return the length of a job's lease: the caller's, then the job's own, then the task's, then the queue's."""
        for lease in (self.lease, own, self.task_leases.get(task)):
            if lease is not None:
                return lease
        return self.leases[queue]

    def common_lease(self) -> float | None:
        """Return the lease of all jobs that do not have their own; None if tasks or queues have different ones."""
        leases = {*self.task_leases.values(), *self.leases.values()}
        return leases.pop() if len(leases) == 1 else None

    def usual_lease(self) -> float:
        """Return the most common length of a lease among the queues."""
        return Counter(self.leases.values()).most_common(1)[0][0] if self.lease is None else self.lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """A lease to extend. A field that is None leaves its column as it is."""

    id: UUID
    token: UUID
    lease: float | None = None
    started: bool | None = None
    progress: str | None = None


@dataclass(slots=True, kw_only=True)  # not frozen, which would take three times as long to make
class Settlement:
    """A verdict on one leased job. `lifecycle.outcome.decide` turns it into a Decision."""

    id: UUID
    token: UUID
    verdict: Verdict
    keep_done: bool = True
    result: str | None = None
    error: str = ""
    entry: str = ""  # the line that this attempt adds to `errors`, encoded
    delay: float = 0.0
    final: bool = False  # for a failed attempt: it was the last one
    returned: bool = False  # for a reap: the attempt never started and is given back
    crashed: bool = False
    unknown: bool = False  # no task with this name is registered here; the row records since when
    wait: float = 0.0  # seconds from being due to the claim
    run: float = 0.0  # seconds from the claim to the verdict
    # What the holder of a claim knows of its job; empty in a settlement by the supervisor or the reaper.
    task: str = ""
    queue: str = ""
    attempt: int = 0
    limit_key: str | None = None
    hold: float = 0.0  # seconds for which the limit key is held


class Decision(NamedTuple):
    """What a settlement changes in the row of its job; the fields are the parameters of the statements."""

    id: UUID
    token: UUID
    outcome: Outcome
    cancellable: bool  # the outcome becomes CANCELLED if a cancel was requested
    keep_done: bool
    result: str | None
    error: str
    entry: str  # empty if nothing is added to the job's errors
    wait: float
    run: float
    # For a job that waits again:
    delay: float | None  # seconds from now; None leaves its run_at as it is
    spent: bool  # the attempt counts; otherwise it is given back, and its worker is removed from `worker_ids`
    returned: bool  # the reaper gave the attempt back; counted in `returns`
    crashed: bool  # the process crashed; counted in `crashes`
    forgiven: bool  # `crashes` is reset to zero
    unknown: bool  # `unknown_since` is set, unless it is set already
    known: bool  # `unknown_since` is cleared


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of a settlement."""

    outcome: Outcome
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """A dead job to requeue. A field that is None is left unchanged; without `run_at`, the job is due now."""

    id: UUID
    args: str | None = field(default=None, repr=False)
    kwargs: str | None = field(default=None, repr=False)
    run_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CancelledJob:
    """The result of a cancel for one job. `record` is set if the job was removed."""

    id: UUID
    outcome: CancelOutcome
    record: JobRecord | None = None


class LimitRow(NamedTuple):
    """What is known of a limit key when it is read."""

    key: str
    override: Numbers  # set at run time, in place of the task's
    spent_until: datetime | None
    held_until: datetime | None
    now: datetime
    task: str | None  # of the job that is next; None if no job of an unpaused queue is blocked
    admitted: int  # permits in use
    pending: int = 0  # of these, the jobs that are not claimed
    priority: int | None = None  # of the job that is next
    lowest: int | None = None  # the highest number among the priorities of pending jobs of the key

    @property
    def overtakes(self) -> bool:
        """Whether the next job is better than one that holds a permit and is not claimed."""
        return self.priority is not None and self.lowest is not None and self.priority < self.lowest


class Admit(NamedTuple):
    """A key of which jobs are to be admitted: at most `most`, and only while it has permits left."""

    key: str
    concurrency: int | None  # None for no bound
    burst: int | None  # of a rate: no more jobs than that may be admitted and not claimed
    most: int


class Permits(NamedTuple):
    """The permits of a key that are in use, and how many of them are of jobs that are not claimed."""

    admitted: int
    pending: int


class AdmittedJob(NamedTuple):
    """A job that an admission has made pending."""

    limit_key: str
    id: UUID
    task: str


@dataclass(frozen=True, slots=True)
class WaitOutcome:
    """How waiting for a job ended. `record` is the job as it was last read."""

    completed: bool = False
    timed_out: bool = False
    not_found: bool = False
    record: JobRecord | None = None


@dataclass(frozen=True, slots=True)
class Renewed:
    """The response to a Renew. `expires_at` is None if the lease is lost."""

    expires_at: datetime | None
    cancel_requested: bool = False


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Exact counts: live jobs now, jobs done (all time), dead jobs now."""

    pending: int = 0
    scheduled: int = 0
    claimed: int = 0
    done: int = 0
    dead: int = 0
    blocked: int = 0


def record_of(row: Any, **changes: Any) -> JobRecord:
    """Return a record of anything that has a job's fields."""
    # Deferred fields are left empty: accessing one would read it from the database now.
    unread = row.get_deferred_fields() if hasattr(row, "get_deferred_fields") else ()
    empty: dict[str, Any] = {"args": [], "kwargs": {}, "headers": {}}
    unread = {*unread, *changes}
    read = [name for name in JobRecord.__slots__ if name not in unread and hasattr(row, name)]
    values = empty | {name: getattr(row, name) for name in read} | changes
    return JobRecord(**values | {"status": Status(values["status"])})


def waited(run_at: datetime, enqueued_at: datetime, claimed_at: datetime) -> float:
    """Return the seconds between the moment a job was due and its claim."""
    return max(0.0, (claimed_at - max(run_at, enqueued_at)).total_seconds())
