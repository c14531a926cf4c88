"""PostgreSQL: every transition is one statement.

`statement_timestamp()` is the clock: `now()` does not advance inside a transaction, and `clock_timestamp()` cannot be
an index condition.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Any
from uuid import UUID

from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError

from djqueue.core import channels
from djqueue.core.durations import instant
from djqueue.core.log import logger
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
from djqueue.exceptions import DuplicateJob
from djqueue.sql.columns import CLAIMED, RECORD, RETURNED_BY_INSERT
from djqueue.sql.common import Common
from djqueue.sql.connection import INTERRUPT_WITHIN, LockTimeout, own_transaction
from djqueue.sql.throughput import count_done
from djqueue.states import CancelOutcome, Outcome, Status

from . import arrays, claim, control, enqueue, lease, limits, prepared, settle
from .rushes import MANY, Notice, rush_of

SERIALIZATION_FAILURE = "40001"
DEADLOCK_DETECTED = "40P01"
LOCK_NOT_AVAILABLE = "55P03"

BINARY = 1  # a format of psycopg's cursors

# From this number of jobs on, COPY is worth its two more round trips.
COPY_FROM = 50

# Seconds. An INSERT that takes longer may wait for the NOTIFY of others, or for a slow disk, which makes them wait. To
# notify after the commit takes another round trip.
SLOW_INSERT = 0.002


class PostgreSQL(Common):
    slow_share = 0.0  # how many of the last inserts of this process were slow, from 0 to 1
    walk_sql = f"AND {arrays.ANY_PLACE}"

    def now(self) -> datetime:
        return self.fetch("SELECT statement_timestamp()")[0][0]  # type: ignore[no-any-return]

    def now_sql(self) -> str:
        return "statement_timestamp()"

    def later_sql(self, seconds: float) -> str:
        return f"(statement_timestamp() + interval '{seconds:.6f} seconds')"

    def text_sql(self, instant: str) -> str:
        return f"{instant}::text"  # Django's adapter for timestamps takes 20 µs for each

    def instant(self, value: Any) -> Any:
        return _parse(value) if isinstance(value, str) else value

    def is_conflict(self, error: OperationalError) -> bool:
        return getattr(error.__cause__, "sqlstate", None) in (SERIALIZATION_FAILURE, DEADLOCK_DETECTED)

    def fetch_soon(self, sql: str, params: Sequence[Any] = ()) -> list[Any]:
        # An admission that a crash of the server loses is repeated, so it need not wait for the disk. What follows it,
        # such as the claim of an admitted job, is written after it, and waits for both.
        self.execute("SET LOCAL synchronous_commit = off")
        self.execute("SET LOCAL lock_timeout = '100ms'")  # not a SELECT, which would take the snapshot before the lock
        try:
            return self.fetch(sql, params)
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) == LOCK_NOT_AVAILABLE:
                raise LockTimeout from error
            raise

    def oldest_pending(self) -> dict[str, datetime]:
        return dict(self.fetch(claim.OLDEST_PENDING))

    def insert(
        self, jobs: Sequence[NewJob], kv: Mapping[str, str], meanwhile: Callable[[], None] | None = None
    ) -> list[Inserted]:
        if len(jobs) == 1 and not kv and enqueue.is_plain(jobs[0]):
            return [self._insert_plain(jobs[0])]
        if len(jobs) >= COPY_FROM and not any(job.own_id or job.dedup_key for job in jobs):
            return self._copy(jobs, meanwhile)
        if any(job.own_id for job in jobs):
            found = self._insert_own_ids(jobs, kv)
        else:
            keyed = any(job.dedup_key is not None for job in jobs)
            found = self.own(lambda: self._insert(jobs, kv, enqueue.LOCK_HIT if keyed else ""))
        return [found[job.id] for job in jobs]

    @own_transaction
    def _copy(self, jobs: Sequence[NewJob], meanwhile: Callable[[], None] | None) -> list[Inserted]:
        """Insert jobs that cannot conflict: several times faster than arrays, for two more round trips."""
        now = self.now()
        inserted = [
            Inserted(job.id, True, Status.PENDING, now, now)
            if job.run_at is None and not job.delay and job.limit_key is None
            else enqueue.due_later(job, now)
            for job in jobs
        ]
        wakeups = {enqueue.wakeup(job, row.status) for job, row in zip(jobs, inserted, strict=True)}
        with self.connection.cursor() as cursor, cursor.copy(enqueue.COPY) as copy:
            for text in enqueue.copy_texts(jobs, inserted):
                copy.write(text)
            if meanwhile is not None:
                meanwhile()
        if self.notify:
            self._notify(wakeups)
        return inserted

    def _insert_plain(self, job: NewJob) -> Inserted:
        values = enqueue.plain_values(job)
        columns, params = tuple(values), list(values.values())
        status = enqueue.status_when_due(job)
        notice = enqueue.wakeup(job, status)
        rush = rush_of(self.alias, notice)
        slow = PostgreSQL.slow_share > 0.5
        notify_later = self.notify and not self.in_caller_transaction() and rush.is_on(slow=slow)
        begun = time.perf_counter()
        sql = enqueue.insert_plain_sql(columns, self.notify and not notify_later)
        [[epoch, *_]] = self.own(lambda: prepared.fetch(self, sql, params))
        PostgreSQL.slow_share += ((time.perf_counter() - begun > SLOW_INSERT) - PostgreSQL.slow_share) / MANY
        if notify_later:
            try:
                rush.notify(notice, self._send, slow=slow)
            except (DatabaseError, InterfaceError):  # not raised: the caller must not enqueue the job again
                message = "notification failed, workers find the job when they poll job=%s"
                logger.warning(message, job.id, exc_info=True)
        now = instant(epoch)
        return Inserted(job.id, True, status, now, now)

    def _notify(self, found: Iterable[Notice]) -> None:
        self.fetch(
            "SELECT pg_notify(n.channel, n.payload) FROM unnest(%s::text[], %s::text[]) AS n(channel, payload)",
            [list(part) for part in zip(*found, strict=True)],
        )

    def _insert(self, jobs: Sequence[NewJob], kv: Mapping[str, str], conflict: str) -> dict[UUID, Inserted]:
        if len(jobs) == 1:  # plain values are cheaper to send than arrays of one
            insert, params = enqueue.INSERT_ONE, [getattr(jobs[0], name) for name, _ in enqueue.INSERT_COLUMNS]
        else:
            insert, params = (
                enqueue.INSERT,
                [[getattr(job, name) for job in jobs] for name, _ in enqueue.INSERT_COLUMNS],
            )
        sql = f"{insert} {conflict} RETURNING {RETURNED_BY_INSERT} {self._wake_for_waiting()}"
        if kv:
            # The kv is written only if the job is created.
            sql = f"WITH new AS ({sql}), written AS ({enqueue.KV_OF_NEW}) SELECT * FROM new"
            params += [list(kv), list(kv.values()), jobs[0].id]
        return self.inserted(jobs, self.fetch(sql, params))

    @own_transaction
    def _insert_own_ids(self, jobs: Sequence[NewJob], kv: Mapping[str, str]) -> dict[UUID, Inserted]:
        found: dict[UUID, Inserted] = {}
        taken: list[UUID | None] = []
        while missing := [job for job in jobs if job.id not in found]:
            found |= self._insert(missing, {}, enqueue.SKIP_TAKEN)
            missing = [job for job in missing if job.id not in found]
            hits = self._lock_keys([job for job in missing if job.dedup_key is not None])
            # The histories are read after the insert, which has waited for any transaction that moves the job there.
            taken = self._taken([job.id for job in missing if job.id not in hits], [job.id for job in jobs])
            taken += [job_id for job_id, hit in hits.items() if hit.id == job_id]
            for job_id in taken:
                if job_id is not None:
                    self.discard([row.id for row in found.values() if row.created])
                    raise DuplicateJob(job_id)
            # A job whose key was released meanwhile is inserted in the next turn.
            found |= hits
        if None in taken:
            self._check_newer_history([job.id for job in jobs if job.own_id and found[job.id].created])
        if kv and found[jobs[0].id].created:
            self.write_kv(kv)
        return found

    def _lock_keys(self, jobs: Sequence[NewJob]) -> dict[UUID, Inserted]:
        if not jobs:
            return {}
        params = [[job.queue for job in jobs], [job.dedup_key for job in jobs]]
        found = self.inserted(jobs, self.fetch(enqueue.lock_keys_sql(self._wake_for_waiting()), params))
        return {job_id: row._replace(created=False) for job_id, row in found.items()}

    def _check_newer_history(self, ids: Sequence[UUID]) -> None:
        """Raise a serialization failure if one of these jobs ended after the snapshot of the transaction was taken."""
        if ids:
            self.execute(enqueue.ENTER_HISTORY, [list(ids)] * 2)
            self.execute(enqueue.LEAVE_HISTORY, [list(ids)] * 2)

    def _taken(self, live: Sequence[UUID], kept: Sequence[UUID]) -> list[UUID | None]:
        wanted = {"djqueue_job": live, "djqueue_donejob": kept, "djqueue_deadjob": kept}
        # An empty array implies every condition for the planner, which may then walk along any partial index.
        asked = {table: list(ids) for table, ids in wanted.items() if ids}
        return [row[0] for row in self.fetch(enqueue.taken_sql(list(asked)), list(asked.values()))]

    def claim(self, request: ClaimRequest) -> list[ClaimedRow]:
        params = claim.parameters(request)
        rows = self.own(lambda: self._fetch_binary(claim.CLAIM, params))
        # UPDATE … RETURNING returns them in the order of the join.
        return sorted(map(ClaimedRow._make, rows), key=_place)

    def _fetch_binary(self, sql: str, params: Sequence[Any]) -> list[Any]:
        """Do the same as `fetch`; a row takes a third of the time to read where the server binds the parameters.

        Not for instants, which Django converts only if they come as text.
        """
        with self.connection.cursor() as cursor:
            if not hasattr(cursor.cursor, "mogrify"):  # what cursors have that write parameters into the text
                cursor.cursor.format = BINARY
            cursor.execute(sql, params)
            rows: list[Any] = cursor.fetchall()
            return rows

    def settle(
        self, decisions: Sequence[Decision], *, expired_at: datetime | None = None, wait: bool = True
    ) -> list[Settled]:
        names, params = arrays.columns_of(decisions, settle.SETTLE_COLUMNS)
        sql = settle.settle_sql(reaping=expired_at is not None, wait=wait, notify=self.notify, varying=names)
        params += [] if expired_at is None else [expired_at]
        rows = self.own(lambda: self.fetch(sql, params))
        # By their tokens too: a process may hold a job that it has lost and claimed again.
        found = {(job, token): Settled(Outcome(name), attempts) for job, token, name, attempts, *_ in rows}
        return [found.get((item.id, item.token), Settled(Outcome.LOST)) for item in decisions]

    def ack(self, items: Sequence[Settlement]) -> bool:
        keep_done = items[0].keep_done
        if any(item.keep_done is not keep_done for item in items):
            return False
        claims: dict[UUID, list[UUID]] = {}
        for item in items:
            claims.setdefault(item.token, []).append(item.id)
        ends = list(accumulate(map(len, claims.values())))
        params: list[Any] = [
            list(claims),
            [1, *(end + 1 for end in ends[:-1])],
            ends,
            arrays.uuids(job for ids in claims.values() for job in ids),
            len(items),
        ]
        results = keep_done and any(item.result is not None for item in items)
        if results:
            params.append([item.result for item in sorted(items, key=attrgetter("id"))])
        params += count_done(items)
        sql = settle.ack_sql(keep_done=keep_done, results=results, notify=self.notify)
        try:
            [[done, *_]] = self.own(lambda: self.fetch(sql, params))
        except IntegrityError:
            return False
        return bool(done)

    def renew(self, renewals: Sequence[Renew], *, wait: bool) -> list[Renewed | None]:
        arrays = [[getattr(item, name) for item in renewals] for name, _ in lease.RENEW_COLUMNS]
        rows = self.own(lambda: self.fetch(lease.RENEW if wait else lease.RENEW_SKIPPING, arrays))
        found = {(job, token): Renewed(expiry, cancel) if expiry else None for job, token, expiry, cancel in rows}
        return [found.get((item.id, item.token), Renewed(None)) for item in renewals]

    def given_keys_sql(self, count: int, more: str = "") -> str:
        return f"SELECT k {more} FROM unnest(%s::text[]) AS k"  # its plan can be kept, however many keys there are

    def given_keys(self, keys: Sequence[str]) -> list[Any]:
        return [list(keys)]

    def admit(self, asked: Sequence[Admit]) -> tuple[list[AdmittedJob], dict[str, Permits]]:
        rows = self.fetch(limits.admit_sql(self.notify), [list(column) for column in zip(*asked, strict=True)])
        counts = {key: Permits(admitted, pending) for key, admitted, pending, *_ in rows if admitted is not None}
        jobs = sorted((row for row in rows if row[1] is None), key=itemgetter(5, 6, 3))
        return [AdmittedJob(row[0], row[3], row[4]) for row in jobs], counts

    def cancel(self, ids: Sequence[UUID], keeps: Mapping[str, bool], keep: bool) -> list[CancelledJob]:
        if not ids:
            return []
        params = [list(ids), list(keeps), list(keeps.values()), keep]
        rows = self.own(lambda: self.fetch(control.cancel_sql(self.notify), params))
        return [
            CancelledJob(row[1], CancelOutcome.REMOVED, self.record(row[1 : 1 + len(RECORD)]))
            if row[0]
            else CancelledJob(row[1], CancelOutcome.REQUESTED)
            for row in rows
        ]

    def requeue(self, requeues: Sequence[Requeue]) -> list[JobRecord]:
        arrays = [[getattr(item, name) for item in requeues] for name, _ in control.REQUEUE_COLUMNS]
        rows = self.own(lambda: self.fetch(f"{control.REQUEUE} {self._wake_for_waiting()}", arrays))
        return [self.record(row[: len(RECORD)]) for row in rows]

    def reschedule(self, ids: Sequence[UUID], run_at: datetime | None, priority: int | None) -> list[UUID]:
        # A job that is due later gives its permit back.
        sql = f"{control.RESCHEDULE} {self._wake_for_waiting()} {arrays.WAKE_FOR_BLOCKED if self.notify else ''}"
        return [row[0] for row in self.own(lambda: self.fetch(sql, [list(ids), priority, run_at, run_at]))]

    def put_back(self, queue: str, tasks: Sequence[str], limit: int, first: float, last: float, grace: float) -> int:
        params = [queue, limit, list(tasks), grace, first, last]
        put = self.own(lambda: self.execute(control.PUT_BACK, params))
        if put:
            self.wake_scheduler()
            self.wake_limits()
        return put

    def _wake_for_waiting(self) -> str:
        return arrays.WAKE_FOR_WAITING if self.notify else ""

    def _send(self, notice: Notice) -> None:
        self.fetch("SELECT pg_notify(%s, %s)", notice)

    def wake(self, queue: str) -> None:
        if self.notify:
            self._send((channels.PENDING, queue))

    def wake_limits(self, keys: Iterable[str] = ("",)) -> None:
        if self.notify:
            self.fetch("SELECT pg_notify(%s, k) FROM unnest(%s::text[]) k", [channels.BLOCKED, list(keys)])

    def wake_scheduler(self) -> None:
        if self.notify:
            self._send((channels.SCHEDULED, ""))

    def interrupt(self, session_id: int | None) -> None:
        driver: Any = self.connection.connection
        if driver is not None:
            driver.cancel_safe(timeout=INTERRUPT_WITHIN)

    def distinct_sql(self, column: str, table: str, condition: str) -> str:
        if (column, table) == ("queue", "djqueue_job"):
            return claim.queues_sql(condition)
        return super().distinct_sql(column, table, condition)

    def promote(self, limit: int) -> list[str | None]:
        sql = f"{claim.PROMOTE} RETURNING j.limit_key {self._wake_for_waiting()}"
        return [row[0] for row in self.own(lambda: self.fetch(sql, [limit]))]


_parse = lru_cache(datetime.fromisoformat)
_place = itemgetter(*map(CLAIMED.index, ("priority", "enqueued_at", "id")))
