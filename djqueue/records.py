"""Plain data that crosses the layers: a new job, a job as it was read, an attempt's error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from .states import CancelOutcome, Outcome, Status, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to be inserted; JSON columns are encoded already."""

    id: UUID
    task: str
    queue: str
    priority: int
    max_attempts: int
    args: str = field(default="[]", repr=False)  # arguments may be sensitive: no repr shows them
    kwargs: str = field(default="{}", repr=False)
    headers: str = "{}"
    delay: float = 0.0
    run_at: datetime | None = None
    own_id: bool = False
    dedup_key: str | None = None
    dedup_until: str = "claimed"
    place: float = 0.0  # seconds that it stands behind the statement's clock: the order of a batch
    retry: str | None = None
    timeout: float | None = None
    lease: float | None = None
    schedule: str | None = None
    slot: datetime | None = None


@dataclass(frozen=True, slots=True)
class Inserted:
    """What became of a NewJob: the row that stands for it, and whether this call created it."""

    id: UUID
    created: bool
    status: Status
    run_at: datetime
    enqueued_at: datetime


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as it was when it was read, whatever table it is in."""

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


class ClaimedRow(NamedTuple):
    """A claimed job as its row says it, JSON still encoded."""

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
    enqueued_at: datetime
    run_at: datetime
    claimed_at: datetime
    lease_expires_at: datetime
    cancel_requested: bool
    retry: str | None
    timeout: float | None
    unknown_since: datetime | None
    crashes: int
    schedule: str | None
    slot: datetime | None
    started_at: datetime
    dedup_key: str | None
    worker_ids: str

    def __repr__(self) -> str:
        return f"ClaimedRow(id={self.id}, task={self.task!r}, attempts={self.attempts})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Which jobs, for whom, for how long."""

    wants: Mapping[str, int]  # queue → at most so many of it
    limit: int
    leases: Mapping[str, float]  # queue → seconds
    task_leases: Mapping[str, float]  # task → seconds, where the task says so
    lease: float | None  # what the claimer says, above all others
    token: UUID
    worker: str
    started: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """A lease to be extended; what is None stays as it is."""

    id: UUID
    token: UUID
    lease: float | None = None
    started: bool | None = None
    progress: str | None = None


@dataclass(slots=True, kw_only=True)  # not frozen, which would take three times as long to make
class Settlement:
    """A verdict on one leased job, with all that its row needs to know."""

    id: UUID
    token: UUID
    verdict: Verdict
    keep_done: bool = True
    result: str | None = None
    error: str = ""
    entry: str = ""  # the errors line of this attempt, encoded
    delay: float = 0.0
    final: bool = False  # a nack that must not be retried
    crashed: bool = False
    unknown: bool = False  # no task of that name here: remember since when
    wait: float = 0.0  # seconds between due and claim
    run: float = 0.0  # seconds between claim and verdict


@dataclass(frozen=True, slots=True)
class Settled:
    """What a settlement did."""

    outcome: Outcome
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """A dead job to put back; what is None stays as it was, without `run_at` it is due now."""

    id: UUID
    args: str | None = field(default=None, repr=False)
    kwargs: str | None = field(default=None, repr=False)
    run_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CancelledJob:
    """What a cancel did to one job; `record` is there when it was removed."""

    id: UUID
    outcome: CancelOutcome
    record: JobRecord | None = None


@dataclass(frozen=True, slots=True)
class WaitOutcome:
    """How waiting for a job ended; `record` is the job as it was last seen."""

    completed: bool = False
    timed_out: bool = False
    not_found: bool = False
    record: JobRecord | None = None


@dataclass(frozen=True, slots=True)
class Renewal:
    """The answer to a renewal of one lease; `expires_at` is None when it is lost."""

    expires_at: datetime | None
    cancel_requested: bool = False


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Exact counts: live rows now, successes since ever, dead letters now."""

    pending: int = 0
    scheduled: int = 0
    claimed: int = 0
    done: int = 0
    dead: int = 0


def record_of(row: Any, **changes: Any) -> JobRecord:
    """A record from anything that has a job's fields."""
    values = {name: getattr(row, name) for name in JobRecord.__slots__ if hasattr(row, name)} | changes
    return JobRecord(**values | {"status": Status(values["status"])})


def waited(run_at: datetime, enqueued_at: datetime, claimed_at: datetime) -> float:
    """Seconds between the moment a job was due and its claim."""
    return max(0.0, (claimed_at - max(run_at, enqueued_at)).total_seconds())
