"""What the lifecycle asks of a database. `common` answers what is the same on all of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from djqueue.core.records import (
    Admit,
    AdmittedJob,
    CancelledJob,
    ClaimedRow,
    ClaimRequest,
    Decision,
    Inserted,
    JobRecord,
    NewJob,
    Permits,
    Renew,
    Renewed,
    Requeue,
    Settled,
    Settlement,
)

from .connection import Connection


class Statements(Connection):
    """One connection's statements. Every method is a transaction of its own, or part of the caller's."""

    # Enqueue

    @abstractmethod
    def insert(
        self, jobs: Sequence[NewJob], kv: Mapping[str, str], meanwhile: Callable[[], None] | None = None
    ) -> list[Inserted]:
        """Insert jobs, or lock the ones that hold their dedup keys; kv is written if the only job is created.

        Where the database works beside this process, `meanwhile` may be called before it has answered.

        Raise DuplicateJob, and insert nothing, when an own id is in use. Never use a savepoint.
        """

    @abstractmethod
    def discard(self, ids: Sequence[UUID]) -> None:
        """Delete jobs that the open transaction inserted."""

    @abstractmethod
    def write_kv(self, kv: Mapping[str, str]) -> None:
        """Write entries, in the order of their keys, without an expiry."""

    # Claim, renew, settle

    @abstractmethod
    def claim(self, request: ClaimRequest) -> list[ClaimedRow]:
        """Claim pending jobs under a new token, and return them best first."""

    @abstractmethod
    def renew(self, renewals: Sequence[Renew], *, wait: bool) -> list[Renewed | None]:
        """Extend leases. Without `wait`, None stands for a row that another transaction has locked."""

    def ack(self, items: Sequence[Settlement]) -> bool:
        """Acknowledge all of these jobs, or change nothing and return False: then `settle` says what became of each.

        This is for databases that have something faster for what most jobs need. Not for a caller's transaction.
        """
        return False

    @abstractmethod
    def settle(
        self, decisions: Sequence[Decision], *, expired_at: datetime | None = None, wait: bool = True
    ) -> list[Settled]:
        """Apply decisions to the rows that still carry their tokens.

        With `expired_at`, only to rows whose lease had expired by then, and that have not started since they were
        read if they are to be returned. Without `wait`, rows that another transaction has locked are left alone and
        reported as LOCKED.
        """

    @abstractmethod
    def promote(self, limit: int) -> list[str | None]:
        """Make due jobs pending, or blocked if they have a limit key, and return the key of each."""

    @abstractmethod
    def put_back(self, queue: str, tasks: Sequence[str], limit: int, first: float, last: float, grace: float) -> int:
        """Make pending jobs of these tasks scheduled, among the next `limit` of the queue, and return how many.

        Each is delayed for as long as its task has been unknown, from `first` to `last` seconds. Jobs whose task has
        been unknown for more than `grace` seconds stay pending.
        """

    # Limits

    walk_sql = ""  # conditions that keep a query on its walk along an index, and hold for every job

    def given_keys_sql(self, count: int, more: str = "") -> str:
        """Return rows of so many keys, each followed by more columns, as SQL with the parameters of `given_keys`."""
        return f"VALUES {', '.join([f'(%s{more})'] * count)}"

    def given_keys(self, keys: Sequence[str]) -> list[Any]:
        return list(keys)

    @abstractmethod
    def blocked_keys_sql(self) -> str:
        """Return a query for the keys of blocked jobs, in order, after one of them and at most so many."""

    @abstractmethod
    def admit(self, asked: Sequence[Admit]) -> tuple[list[AdmittedJob], dict[str, Permits]]:
        """Make blocked jobs of locked keys pending; return them best first, and the permits that were in use before.

        These are counted by this statement, or by one in the same transaction after the lock. Jobs of paused queues,
        and rows that another transaction has locked, are left out.
        """

    @abstractmethod
    def block(self, ids: Sequence[UUID]) -> None:
        """Make locked jobs blocked again."""

    # Control

    @abstractmethod
    def cancel(self, ids: Sequence[UUID], keeps: Mapping[str, bool], keep: bool) -> list[CancelledJob]:
        """Remove waiting jobs and flag claimed ones. `keeps` is whether a queue keeps them, `keep` the default."""

    @abstractmethod
    def requeue(self, requeues: Sequence[Requeue]) -> list[JobRecord]:
        """Make dead jobs wait again, and return those that were dead."""

    @abstractmethod
    def reschedule(self, ids: Sequence[UUID], run_at: datetime | None, priority: int | None) -> list[UUID]:
        """Change the time or the priority of waiting jobs, and return those that were waiting."""

    # Read

    @abstractmethod
    def get(self, job_id: UUID, payload: bool = True) -> JobRecord | None:
        """Read a job from whatever table it is in; without `payload`, leave arguments, errors and result out."""

    @abstractmethod
    def get_many(self, ids: Sequence[UUID], payload: bool = True) -> dict[UUID, JobRecord]:
        """Read jobs from whatever tables they are in, with one statement; see `get`."""

    @abstractmethod
    def dead_jobs(self, queue: str, after: UUID | None, limit: int, payload: bool = True) -> list[JobRecord]:
        """Read dead jobs of a queue in the order of their ids; without `payload`, leave their large columns out."""

    @abstractmethod
    def claimable_queues(self) -> list[str]:
        """Return the queues that have pending jobs and are not paused."""

    @abstractmethod
    def queues_in(self, table: str, condition: str = "true") -> list[str]:
        """Return the distinct queues of a table that has an index which leads with the queue."""

    @abstractmethod
    def distinct(self, column: str, table: str, condition: str = "true") -> list[str]:
        """Return the distinct values of a column, hopping along an index that leads with it."""

    @abstractmethod
    def oldest_pending(self) -> dict[str, datetime]:
        """Return since when the oldest pending job of each queue has been due.

        A job that is retried or delayed has been due since its run_at.
        """

    @abstractmethod
    def oldest_done(self) -> dict[str, datetime]:
        """Return when the oldest kept done or cancelled job of each queue was completed."""

    # Notify

    def wake(self, queue: str) -> None:
        """Notify other processes, at the commit, that jobs of the queue may be claimed; without NOTIFY, they poll."""

    def wake_limits(self, keys: Iterable[str] = ("",)) -> None:
        """Notify supervisors, at the commit, that jobs of these limit keys may be admitted; "" stands for any key."""

    def wake_scheduler(self) -> None:
        """Notify other processes, at the commit, that a job may be due earlier than they knew."""
