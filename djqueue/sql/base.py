"""What the lifecycle asks of a database, and the answers that are the same on all of them."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import DataError, IntegrityError, OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from djqueue.conf import config
from djqueue.fields import lines, read, words
from djqueue.records import (
    CancelledJob,
    ClaimedRow,
    ClaimRequest,
    Inserted,
    JobRecord,
    NewJob,
    Renew,
    Renewal,
    Requeue,
    Settled,
    Settlement,
)
from djqueue.states import Status

T = TypeVar("T")

# What a job takes along when it moves between Job, DoneJob and DeadJob.
KEPT = (
    "id task queue priority args kwargs headers attempts max_attempts run_at enqueued_at started_at last_attempted_at "
    "claimed_at failed_at last_error errors worker_ids progress cancel_requested dedup_key retry timeout lease crashes "
    "schedule slot"
).split()

# What a new job brings along as it is; its times and its status are the statement's.
GIVEN = (
    "id task queue priority args kwargs headers max_attempts dedup_key dedup_until retry timeout lease schedule slot"
).split()

# What a requeued job keeps of its former life.
REVIVED = "id task queue priority headers max_attempts enqueued_at retry timeout lease schedule".split()

RETURNED_BY_INSERT = "id, queue, dedup_key, status, run_at, enqueued_at"

# What a claim brings back, in the order of ClaimedRow.
CLAIMED = (
    "id task queue args kwargs headers priority attempts max_attempts last_error enqueued_at run_at claimed_at "
    "lease_expires_at cancel_requested retry timeout unknown_since crashes schedule slot started_at "
    "dedup_key worker_ids"
).split()

# An errors column past this length loses its oldest entry for each new one.
MAX_ERRORS = 256 * 1024

# How often a job that was claimed but never started gets its attempt back from the reaper.
MAX_RETURNS = 3

# Upper bounds in seconds of the histogram cells of Throughput; one more cell is open-ended.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)

# Conflicts with other transactions are transient: ten tries span about three seconds.
CONFLICT_TRIES = 10


class Statements(ABC):
    """One connection's statements. Every method is one transaction of its own, or part of the caller's."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection
        self.alias = connection.alias
        self.notify = config().notify

    @abstractmethod
    def now(self) -> datetime:
        """The clock that decides."""

    @abstractmethod
    def now_sql(self) -> str:
        """The present, as SQL; all instants of one statement are counted from here."""

    @abstractmethod
    def later_sql(self, seconds: float) -> str:
        """The instant so many seconds from now, as SQL."""

    def upsert_sql(self, key: str, columns: Sequence[str]) -> str:
        """The clause that writes the given columns to the row that holds the key, instead of inserting."""
        return f"ON CONFLICT {key} DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in columns)}"

    @abstractmethod
    def insert(self, jobs: Sequence[NewJob], kv: Mapping[str, str]) -> list[Inserted]:
        """Insert jobs, or lock the ones that hold their dedup keys; kv is written if the only job is created.

        Raises DuplicateJob, and inserts nothing, when an own id is in use. Never a savepoint.
        """

    def write_kv(self, kv: Mapping[str, str]) -> None:
        """Write entries, in the order of their keys, without an expiry."""
        key = self.connection.ops.quote_name("key")
        rows = ", ".join([f"(%s, %s, {self.now_sql()}, NULL)"] * len(kv))
        conflict = self.upsert_sql(f"({key})", ["value", "updated_at", "expires_at"])
        self.execute(
            f"INSERT INTO djqueue_kv ({key}, value, updated_at, expires_at) VALUES {rows} {conflict}",
            [text for item in kv.items() for text in item],
        )

    def discard(self, ids: Sequence[UUID]) -> None:
        """Take back jobs that the open transaction inserted."""
        if not ids:
            return
        self.execute(f"DELETE FROM djqueue_job WHERE id IN ({holders(ids)})", [self.adapt(i) for i in ids])

    @abstractmethod
    def claim(self, request: ClaimRequest) -> list[ClaimedRow]:
        """Take pending jobs under a new token, best first."""

    @abstractmethod
    def settle(self, settlements: Sequence[Settlement], *, reaping: bool = False) -> list[Settled]:
        """Apply verdicts to the rows that still carry their tokens; reaping also needs an expired lease."""

    @abstractmethod
    def renew(self, renewals: Sequence[Renew], *, wait: bool) -> list[Renewal | None]:
        """Extend leases; None stands for a row that somebody has locked, when we do not wait for it."""

    @abstractmethod
    def promote(self, limit: int) -> list[str]:
        """Make due jobs pending; gives the queue of each."""

    @abstractmethod
    def cancel(self, ids: Sequence[UUID], keep: bool, otherwise: Sequence[str]) -> list[CancelledJob]:
        """Remove waiting jobs and flag claimed ones; `otherwise` are the queues that are not kept like the others."""

    @abstractmethod
    def requeue(self, requeues: Sequence[Requeue]) -> list[JobRecord]:
        """Make dead jobs wait again; gives those that were dead."""

    @abstractmethod
    def reschedule(self, ids: Sequence[UUID], run_at: datetime | None, priority: int | None) -> list[UUID]:
        """Change the time or the priority of waiting jobs; gives those that were waiting."""

    @abstractmethod
    def put_back(self, queue: str, tasks: Sequence[str], limit: int, first: float, last: float, grace: float) -> int:
        """Make pending jobs of these tasks scheduled, of the next `limit` of the queue; gives how many.

        For as long as they have been unknown, from `first` to `last` seconds; those of more than `grace` stay.
        """

    def wake(self, queue: str) -> None:  # noqa: B027 - nothing to do where nothing listens
        """Tell other processes, at the commit, that jobs of the queue may be claimed; where there is a way to."""

    def wake_scheduler(self) -> None:  # noqa: B027
        """Tell other processes, at the commit, that something may be due earlier than they knew."""

    @abstractmethod
    def is_conflict(self, error: OperationalError) -> bool:
        """Whether the database asks us to run the transaction again."""

    def is_refusal(self, error: Exception) -> bool:
        """Whether a statement failed for the values that it was given, and would fail with them again."""
        return isinstance(error, DataError | IntegrityError | UnicodeError)

    def get(self, job_id: UUID) -> JobRecord | None:
        """Read a job from whatever table it is in."""
        return self.get_many([job_id]).get(job_id)

    def get_many(self, ids: Sequence[UUID]) -> dict[UUID, JobRecord]:
        """Read jobs from whatever tables they are in, with one statement; each part is a look-up by primary key."""
        where = f"WHERE id IN ({holders(ids)})"
        sql = " UNION ALL ".join(f"{select} {where}" for select in _SELECTS)
        found = [self.record(row) for row in self.fetch(sql, [self.adapt(i) for i in ids] * len(_SELECTS))]
        # A job that came back from the dead, and whose history was not taken along, is what its live row says.
        return {record.id: record for record in reversed(found)}

    def dead_jobs(self, queue: str, after: UUID | None, limit: int) -> list[JobRecord]:
        """Dead jobs along djqueue_dead_queue."""
        sql = f"{select_record('djqueue_deadjob', **NOT_IN_DEAD)} WHERE queue = %s"
        params: list[Any] = [queue]
        if after is not None:
            sql += " AND id > %s"
            params.append(self.adapt(after))
        return [self.record(row) for row in self.fetch(f"{sql} ORDER BY id LIMIT %s", [*params, limit])]

    def claimable_queues(self) -> list[str]:
        """The queues that have pending jobs and are not paused."""
        pending = self.queues_in("djqueue_job", "status = 'pending'")
        paused = {row[0] for row in self.fetch("SELECT queue FROM djqueue_queuestate WHERE paused")} if pending else ()
        return [queue for queue in pending if queue not in paused]

    def queues_in(self, table: str, condition: str = "true") -> list[str]:
        """The distinct queues of a table that has an index which leads with the queue."""
        return self.distinct("queue", table, condition)

    def distinct(self, column: str, table: str, condition: str = "true") -> list[str]:
        """The distinct values of a column, hopping along an index that leads with it."""
        rows = self.fetch(f"""
            WITH RECURSIVE hop(value) AS (
                SELECT MIN({column}) FROM {table} WHERE {condition}
                UNION ALL
                SELECT (SELECT MIN({column}) FROM {table} WHERE {condition} AND {column} > hop.value)
                FROM hop WHERE hop.value IS NOT NULL
            )
            SELECT value FROM hop WHERE value IS NOT NULL
        """)
        return [row[0] for row in rows]

    def record(self, row: Sequence[Any]) -> JobRecord:
        """Build a record from a row of RECORD_COLUMNS."""
        values = dict(zip(RECORD_COLUMNS, row, strict=True))
        for name in ("args", "kwargs", "headers", "result", "progress"):
            values[name] = read(values[name])
        for name in _INSTANTS:
            values[name] = self.instant(values[name])
        values["id"] = self.uuid(values["id"])
        values["status"] = Status(values["status"])
        values["errors"] = lines(values["errors"])
        values["worker_ids"] = words(values["worker_ids"])
        values["cancel_requested"] = bool(values["cancel_requested"])
        return JobRecord(**values)

    def claimed(self, row: Sequence[Any]) -> ClaimedRow:
        """Build a ClaimedRow from a row of CLAIMED columns."""
        values = dict(zip(CLAIMED, row, strict=True))
        for name in CLAIMED_INSTANTS:
            values[name] = self.instant(values[name])
        values["id"] = self.uuid(values["id"])
        values["cancel_requested"] = bool(values["cancel_requested"])
        return ClaimedRow(**values)

    def execute(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run a statement and give the number of rows that it changed."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            return int(cursor.rowcount)

    def fetch(self, sql: str, params: Sequence[Any] = ()) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            rows: list[Any] = cursor.fetchall()
            return rows

    def adapt(self, value: Any) -> Any:
        """A value as the database's driver takes it."""
        return value

    def instant(self, value: Any) -> Any:
        """An aware datetime from what the driver gave."""
        return value

    def uuid(self, value: Any) -> UUID:
        return value  # type: ignore[no-any-return]

    def inserted(self, jobs: Sequence[NewJob], rows: Sequence[Sequence[Any]]) -> dict[UUID, Inserted]:
        """Match rows of RETURNED_BY_INSERT to the jobs that they stand for."""
        keyed = {(job.queue, job.dedup_key): job.id for job in jobs if job.dedup_key is not None}
        found = {}
        for row_id, queue, dedup_key, status, run_at, enqueued_at, *_ in rows:
            row_id = self.uuid(row_id)
            asked = keyed.get((queue, dedup_key), row_id)
            found[asked] = Inserted(
                row_id, row_id == asked, Status(status), self.instant(run_at), self.instant(enqueued_at)
            )
        return found

    def in_caller_transaction(self) -> bool:
        connection = self.connection
        if connection.connection is None:  # asking must not connect
            return connection.in_atomic_block or not connection.settings_dict["AUTOCOMMIT"]
        return connection.in_atomic_block or not connection.autocommit

    def own(self, work: Callable[[], T]) -> T:
        """Run one statement, again while it conflicts with other transactions; never inside a caller's."""
        if self.in_caller_transaction():
            return work()
        for tried in range(1, CONFLICT_TRIES + 1):
            try:
                return work()
            except OperationalError as error:
                if tried == CONFLICT_TRIES or not self.is_conflict(error):
                    raise
                time.sleep(random.uniform(0, 0.01 * 2 ** min(tried, 6)))
        raise AssertionError("unreachable")

    def own_transaction(self, work: Callable[[], T]) -> T:
        """Run several statements as one transaction of ours, again while it conflicts, or as part of the caller's."""
        return self.own(lambda: self.in_transaction(work))

    def in_transaction(self, work: Callable[[], T]) -> T:
        """Run several statements as one transaction of ours, once, or as part of the caller's."""
        if self.in_caller_transaction():
            return work()
        with self.begin():
            return work()

    @contextmanager
    def begin(self) -> Iterator[None]:
        """A transaction that suits short queue work."""
        with transaction.atomic(using=self.alias):
            yield


def holders(values: Sequence[Any]) -> str:
    """Placeholders for an IN list."""
    return ", ".join(["%s"] * len(values))


RECORD_COLUMNS = (
    "id task queue status args kwargs headers priority attempts max_attempts run_at enqueued_at started_at "
    "last_attempted_at claimed_at lease_expires_at completed_at failed_at last_error errors result progress "
    "cancel_requested dedup_key worker_ids schedule slot"
).split()
CLAIMED_INSTANTS = [name for name in CLAIMED if name.endswith("_at") or name in ("unknown_since", "slot")]
_INSTANTS = [name for name in RECORD_COLUMNS if name.endswith("_at") or name == "slot"]


NOT_IN_JOB = {"completed_at": "NULL", "result": "NULL"}
NOT_IN_DONE = {"lease_expires_at": "NULL"}
NOT_IN_DEAD = {"status": "'dead'", "lease_expires_at": "NULL", "completed_at": "NULL", "result": "NULL"}


def select_record(table: str, **absent: str) -> str:
    return f"SELECT {', '.join(absent.get(name, name) for name in RECORD_COLUMNS)} FROM {table}"


_SELECTS = (
    select_record("djqueue_job", **NOT_IN_JOB),
    select_record("djqueue_donejob", **NOT_IN_DONE),
    select_record("djqueue_deadjob", **NOT_IN_DEAD),
)
