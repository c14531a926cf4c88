"""PostgreSQL: every transition is one statement.

`statement_timestamp()` is the clock: `now()` stands still inside a transaction, and `clock_timestamp()` cannot be an
index condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import OperationalError

from djqueue import channels
from djqueue.exceptions import DuplicateJob
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
from djqueue.states import CancelOutcome, Outcome, Status

from .base import CLAIMED, CLAIMED_INSTANTS, GIVEN, RECORD_COLUMNS, RETURNED_BY_INSERT, Statements
from .pg import claim, enqueue, lease, pieces, settle, steer

SERIALIZATION_FAILURE = "40001"
DEADLOCK_DETECTED = "40P01"

# From so many jobs on, COPY is worth its two further round trips.
COPY_FROM = 50


class PostgreSQL(Statements):
    def now(self) -> datetime:
        return self.fetch("SELECT statement_timestamp()")[0][0]  # type: ignore[no-any-return]

    def now_sql(self) -> str:
        return "statement_timestamp()"

    def later_sql(self, seconds: float) -> str:
        return f"(statement_timestamp() + interval '{seconds:.6f} seconds')"

    def is_conflict(self, error: OperationalError) -> bool:
        return getattr(error.__cause__, "sqlstate", None) in (SERIALIZATION_FAILURE, DEADLOCK_DETECTED)

    def insert(self, jobs: Sequence[NewJob], kv: Mapping[str, str]) -> list[Inserted]:
        if len(jobs) >= COPY_FROM and not any(job.own_id or job.dedup_key for job in jobs):
            return self.own_transaction(lambda: self._copy(jobs))
        if any(job.own_id for job in jobs):
            found = self.own_transaction(lambda: self._insert_own_ids(jobs, kv))
        else:
            keyed = any(job.dedup_key is not None for job in jobs)
            found = self.own(lambda: self._insert(jobs, kv, enqueue.LOCK_HIT if keyed else ""))
        return [found[job.id] for job in jobs]

    def _copy(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Jobs that can meet no conflict: several times faster than arrays, for two further round trips."""
        now = self.now()
        inserted = []
        wakeups = set()
        with self.connection.cursor() as cursor, cursor.copy(enqueue.COPY) as copy:
            for job in jobs:
                run_at = job.run_at or now + timedelta(seconds=job.delay)
                status = Status.PENDING if run_at <= now else Status.SCHEDULED
                copy.write_row([*(getattr(job, name) for name in GIVEN), now, run_at, status.value])
                inserted.append(Inserted(job.id, True, status, run_at, now))
                wakeups.add((channels.PENDING, job.queue) if run_at <= now else (channels.SCHEDULED, ""))
        if self.notify:
            spoken = [list(part) for part in zip(*wakeups, strict=True)]
            self.fetch(
                "SELECT pg_notify(w.channel, w.queue) FROM unnest(%s::text[], %s::text[]) w(channel, queue)", spoken
            )
        return inserted

    def _insert(self, jobs: Sequence[NewJob], kv: Mapping[str, str], conflict: str) -> dict[UUID, Inserted]:
        if len(jobs) == 1:  # the common case: plain values are cheaper to send than arrays of one
            insert, params = enqueue.INSERT_ONE, [getattr(jobs[0], name) for name, _ in enqueue.INSERT_COLUMNS]
        else:
            insert, params = (
                enqueue.INSERT,
                [[getattr(job, name) for job in jobs] for name, _ in enqueue.INSERT_COLUMNS],
            )
        sql = f"{insert} {conflict} RETURNING {RETURNED_BY_INSERT} {pieces.WAKE_FOR_NEW if self.notify else ''}"
        if kv:
            # Only a created job brings its kv along.
            sql = f"WITH new AS ({sql}), written AS ({enqueue.KV_OF_NEW}) SELECT * FROM new"
            params += [list(kv), list(kv.values()), jobs[0].id]
        return self.inserted(jobs, self.fetch(sql, params))

    def _insert_own_ids(self, jobs: Sequence[NewJob], kv: Mapping[str, str]) -> dict[UUID, Inserted]:
        found: dict[UUID, Inserted] = {}
        while missing := [job for job in jobs if job.id not in found]:
            found |= self._insert(missing, {}, enqueue.SKIP_TAKEN)
            missing = [job for job in missing if job.id not in found]
            hits = self._lock_keys([job for job in missing if job.dedup_key is not None])
            # The look at the history comes after the insert, which has waited for whoever was moving the job there.
            taken = self._taken([job.id for job in missing if job.id not in hits], [job.id for job in jobs])
            taken += [job_id for job_id, hit in hits.items() if hit.id == job_id]
            if taken:
                self.discard([row.id for row in found.values() if row.created])
                raise DuplicateJob(taken[0])
            # A key that was released meanwhile leaves its job to be inserted in another turn.
            found |= hits
        if kv and found[jobs[0].id].created:
            self.write_kv(kv)
        return found

    def _lock_keys(self, jobs: Sequence[NewJob]) -> dict[UUID, Inserted]:
        if not jobs:
            return {}
        params = [[job.queue for job in jobs], [job.dedup_key for job in jobs]]
        found = self.inserted(jobs, self.fetch(enqueue.LOCK_KEYS, params))
        return {job_id: replace(row, created=False) for job_id, row in found.items()}

    def _taken(self, live: Sequence[UUID], kept: Sequence[UUID]) -> list[UUID]:
        return [row[0] for row in self.fetch(enqueue.TAKEN, [list(live), list(kept), list(kept)])]

    def claim(self, request: ClaimRequest) -> list[ClaimedRow]:
        params: list[Any] = [
            list(request.wants),
            list(request.wants.values()),
            [request.leases[queue] for queue in request.wants],
            request.limit,
            request.token,
            request.worker,
            request.worker,
            request.started,
            request.lease,
            list(request.task_leases),
            list(request.task_leases.values()),
        ]
        rows = self.own(lambda: self.fetch(claim.CLAIM, params))
        found = [_claimed(row) for row in rows]
        # UPDATE … RETURNING gives them in the order of the join.
        found.sort(key=lambda row: (row.priority, row.enqueued_at, row.id))
        return found

    def settle(self, settlements: Sequence[Settlement], *, reaping: bool = False) -> list[Settled]:
        names, params = pieces.columns_of(settlements, settle.SETTLE_COLUMNS)
        sql = settle.settle_sql(reaping=reaping, notify=self.notify, varying=names)
        rows = self.own(lambda: self.fetch(sql, params))
        found: dict[UUID, Settled] = {row[0]: Settled(Outcome(row[1]), row[2]) for row in rows}
        return [found.get(item.id, Settled(Outcome.LOST)) for item in settlements]

    def renew(self, renewals: Sequence[Renew], *, wait: bool) -> list[Renewal | None]:
        arrays = [[getattr(item, name) for item in renewals] for name, _ in lease.RENEW_COLUMNS]
        rows = self.own(lambda: self.fetch(lease.RENEW if wait else lease.RENEW_SKIPPING, arrays))
        found = {row[0]: Renewal(*row[1:]) if row[1] else None for row in rows}
        return [found.get(item.id, Renewal(None)) for item in renewals]

    def cancel(self, ids: Sequence[UUID], keep: bool, otherwise: Sequence[str]) -> list[CancelledJob]:
        rows = self.own(lambda: self.fetch(steer.cancel_sql(self.notify), [list(ids), list(otherwise), keep]))
        return [
            CancelledJob(row[0], CancelOutcome.REMOVED, self.record(row[2 : 2 + len(RECORD_COLUMNS)]))
            if row[1]
            else CancelledJob(row[0], CancelOutcome.REQUESTED)
            for row in rows
        ]

    def requeue(self, requeues: Sequence[Requeue]) -> list[JobRecord]:
        arrays = [[getattr(item, name) for item in requeues] for name, _ in steer.REQUEUE_COLUMNS]
        rows = self.own(lambda: self.fetch(f"{steer.REQUEUE} {pieces.WAKE_FOR_NEW if self.notify else ''}", arrays))
        return [self.record(row[: len(RECORD_COLUMNS)]) for row in rows]

    def reschedule(self, ids: Sequence[UUID], run_at: datetime | None, priority: int | None) -> list[UUID]:
        sql = f"{steer.RESCHEDULE} {pieces.WAKE_FOR_WAITING if self.notify else ''}"
        return [row[0] for row in self.own(lambda: self.fetch(sql, [list(ids), priority, run_at, run_at]))]

    def put_back(self, queue: str, tasks: Sequence[str], limit: int, first: float, last: float, grace: float) -> int:
        params = [queue, limit, first, last, list(tasks), grace]
        put = self.own(lambda: self.execute(steer.PUT_BACK, params))
        if put:
            self.wake_scheduler()
        return put

    def wake(self, queue: str) -> None:
        if self.notify:
            self.fetch("SELECT pg_notify(%s, %s)", [channels.PENDING, queue])

    def wake_scheduler(self) -> None:
        if self.notify:
            self.fetch("SELECT pg_notify(%s, '')", [channels.SCHEDULED])

    def promote(self, limit: int) -> list[str]:
        sql = f"{claim.PROMOTE} RETURNING j.queue {pieces.WAKE_FOR_PENDING if self.notify else ''}"
        return [row[0] for row in self.own(lambda: self.fetch(sql, [limit]))]


_INSTANTS = [CLAIMED.index(name) for name in CLAIMED_INSTANTS]


def _claimed(row: Sequence[Any]) -> ClaimedRow:
    values = list(row)
    for place in _INSTANTS:
        if (seconds := values[place]) is not None:
            values[place] = datetime.fromtimestamp(seconds, UTC)
    return ClaimedRow._make(values)
