"""The transitions on databases without data-modifying CTEs: a few statements in one short transaction, which locks
the rows that it changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError

from djqueue.core.records import (
    Admit,
    AdmittedJob,
    CancelledJob,
    Decision,
    Inserted,
    JobRecord,
    NewJob,
    Permits,
    Renew,
    Renewed,
    Requeue,
    Settled,
)
from djqueue.exceptions import DuplicateJob
from djqueue.models import Job, Throughput
from djqueue.states import WAITING_AGAIN, CancelOutcome, Outcome, Status

from .columns import GIVEN, MAX_ERRORS, NOT_IN_JOB, RECORD, RETURNED_BY_INSERT, REVIVED
from .common import PENDING, holders
from .connection import CONFLICT_TRIES, IDS_AT_ONCE, ROWS_AT_ONCE, batches_of, own_transaction, slices_of
from .limits import ADMITTED, UNPAUSED
from .rows import Held, Rows, characters
from .throughput import Counts

_NEWLINE = "'\n'"
_MARK = '{"before_requeue":true,'


class Portable(Rows):
    """SQLite and MariaDB."""

    @own_transaction
    def put_back(self, queue: str, tasks: Sequence[str], limit: int, first: float, last: float, grace: float) -> int:
        ahead = self.fetch(
            f"SELECT id, task FROM djqueue_job WHERE {PENDING} AND queue = %s "
            "ORDER BY priority, enqueued_at, id LIMIT %s",
            [queue, limit],
        )
        ids = [self.uuid(job) for job, task in ahead if task in tasks]
        now, rows = self.lock(["id", "status", "unknown_since"], ids, skip_locked=True)
        put: list[tuple[Any, ...]] = []
        for job, status, since in rows:
            since = self.instant(since) or now
            age = (now - since).total_seconds()
            if status == Status.PENDING.value and (age < grace or since is now):
                put.append((job, Status.SCHEDULED.value, now + timedelta(seconds=max(first, min(last, age))), since))
        columns = ["id", "status", "run_at", "unknown_since"]
        self.upsert(columns, put, {name: self.new_sql(name) for name in columns[1:]})
        return len(put)

    # Enqueue

    def insert(
        self, jobs: Sequence[NewJob], kv: Mapping[str, str], meanwhile: Callable[[], None] | None = None
    ) -> list[Inserted]:
        own_ids = any(job.own_id for job in jobs)
        found = (self.own_transaction if kv or own_ids else self.own)(lambda: self._insert(jobs, kv))
        return [found[job.id] for job in jobs]

    def _insert(self, jobs: Sequence[NewJob], kv: Mapping[str, str]) -> dict[UUID, Inserted]:
        found: dict[UUID, Inserted] = {}
        # Several statements, one clock: `place` keeps the order of the batch.
        clock = self.now() if len(jobs) > 1 and any(job.own_id for job in jobs) else None
        try:
            for job in jobs:
                if job.own_id:
                    found |= self._insert_own_id(job, clock)
        except DuplicateJob:
            self.discard([row.id for row in found.values() if row.created])
            raise
        plain = [job for job in jobs if not job.own_id]
        if plain:
            found |= self.inserted(plain, self.fetch(*self._insert_sql(plain, clock)))
        if kv and found[jobs[0].id].created:
            self.write_kv(kv)
        return found

    def _insert_own_id(self, job: NewJob, clock: datetime | None) -> dict[UUID, Inserted]:
        """Insert alone, so that a conflict is about this job: its id is taken, or its key is held.

        Not as an upsert: MariaDB's would also write over the row that has the id.
        """
        for tried in range(1, CONFLICT_TRIES + 1):
            try:
                found = self.inserted([job], self.fetch(*self._insert_sql([job], clock, upsert=False)))
            except IntegrityError:
                # The database rolls back the statement alone: the transaction stays usable.
                if self._has("djqueue_job", job.id, self.lock_sql):
                    raise DuplicateJob(job.id) from None
                hit = self.fetch(
                    f"SELECT {RETURNED_BY_INSERT} FROM djqueue_job WHERE queue = %s AND dedup_key = %s {self.lock_sql}",
                    [job.queue, job.dedup_key],
                )
                if hit:
                    return self.inserted([job], hit)
                if tried == CONFLICT_TRIES:
                    raise
                continue  # the row that was in the way is gone
            # The histories are read after the insert, which has waited for any transaction that moves the job there.
            if self._has("djqueue_donejob", job.id) or self._has("djqueue_deadjob", job.id):
                self.discard([job.id])
                raise DuplicateJob(job.id)
            return found
        raise AssertionError("unreachable")

    def _has(self, table: str, job_id: UUID, lock: str = "") -> bool:
        return bool(self.fetch(f"SELECT id FROM {table} WHERE id = %s {lock}", [self.adapt(job_id)]))

    def _insert_sql(
        self, jobs: Sequence[NewJob], clock: datetime | None, *, upsert: bool = True
    ) -> tuple[str, list[Any]]:
        now = self.now_sql()
        rows: list[str] = []
        params: list[Any] = []
        for job in jobs:
            run_at = self.later_sql(job.delay) if job.run_at is None else "%s"
            rows.append(
                f"({holders(GIVEN)}, {now if clock is None else '%s'}, {run_at}, "
                f"CASE WHEN {run_at} > {now} THEN 'scheduled' ELSE '{'blocked' if job.limit_key else 'pending'}' END)"
            )
            params += [self.adapt(getattr(job, name)) for name in GIVEN]
            if clock is not None:
                params.append(self.adapt(clock + timedelta(seconds=job.place)))
            if job.run_at is not None:
                params += [self.adapt(job.run_at)] * 2
        keyed = upsert and any(job.dedup_key is not None for job in jobs)
        conflict = self.upsert_sql("(queue, dedup_key) WHERE dedup_key IS NOT NULL", ["dedup_key"]) if keyed else ""
        return (
            f"INSERT INTO djqueue_job ({', '.join(GIVEN)}, enqueued_at, run_at, status) "
            f"VALUES {', '.join(rows)} {conflict} RETURNING {RETURNED_BY_INSERT}"
        ), params

    # Limits

    def admit(self, asked: Sequence[Admit]) -> tuple[list[AdmittedJob], dict[str, Permits]]:
        found: list[AdmittedJob] = []
        counts: dict[str, Permits] = {}
        for ask in asked:
            count = (
                "SELECT COUNT(*), COALESCE(SUM(CASE WHEN status = 'pending' THEN 1 ELSE 0 END), 0) "
                f"FROM djqueue_job {self.blocked_sql} WHERE limit_key = %s AND {ADMITTED} {self.current_sql()}"
            )
            counts[ask.key] = permits = Permits(*map(int, self.fetch(count, [ask.key])[0]))
            most = ask.most
            if ask.concurrency is not None:
                most = min(most, ask.concurrency - permits.admitted)
            if ask.burst is not None:
                most = min(most, ask.burst - permits.pending)
            rows = self.fetch(
                f"SELECT id, task FROM djqueue_job j {self.blocked_sql} "
                f"WHERE status = 'blocked' AND limit_key = %s AND {UNPAUSED} "
                f"ORDER BY priority, enqueued_at, id LIMIT %s {self.skip_locked_sql}",
                [ask.key, max(most, 0)],
            )
            found += [AdmittedJob(ask.key, self.uuid(job), task) for job, task in rows]
        for part in slices_of([job.id for job in found], IDS_AT_ONCE):
            sql = f"UPDATE djqueue_job {self.by_id_sql} SET status = 'pending' WHERE id IN ({holders(part)})"
            self.execute(sql, [self.adapt(i) for i in part])
        return found, counts

    # Settle

    @own_transaction
    def settle(
        self, decisions: Sequence[Decision], *, expired_at: datetime | None = None, wait: bool = True
    ) -> list[Settled]:
        now, rows = self.hold([item.id for item in decisions], skip_locked=not wait)
        locked = set() if wait else self._locked(decisions, rows)
        settled: list[Settled] = []
        returned: list[tuple[Held, Decision]] = []
        gone: list[tuple[Decision, Outcome]] = []
        counts = Counts(now)
        for item in decisions:
            row = rows.get(item.id)
            if row is None or row.token != item.token or (expired_at and not _may_reap(row, item, expired_at)):
                settled.append(Settled(Outcome.LOCKED if item.id in locked else Outcome.LOST))
                continue
            outcome = Outcome.CANCELLED if item.cancellable and row.cancel_requested else item.outcome
            settled.append(Settled(outcome, row.attempts))
            counts.add(row.queue, row.task, outcome, item.wait, item.run)
            if outcome in WAITING_AGAIN:
                returned.append((row, item))
            else:
                gone.append((item, outcome))
            row.token = None  # a claim cannot be settled twice
        if returned:
            self._give_back(returned, now)
        if gone:
            self._move_to_dead([item for item, outcome in gone if outcome == Outcome.DEAD], now)
            self._move_to_done([pair for pair in gone if pair[1] != Outcome.DEAD and pair[0].keep_done], now)
            self.delete("djqueue_job", [item.id for item, _ in gone])
        if counts.cells:
            Throughput.objects.using(self.alias).bulk_create(counts.cells.values())
        return settled

    def _give_back(self, returned: Sequence[tuple[Held, Decision]], now: datetime) -> None:
        """Make claimed rows wait again."""
        new = self.new_sql
        values = [_waiting_again(row, item, now) for row, item in returned]
        written = list(values[0])[1:]
        # An attempt that is given back takes its worker along.
        left = f"{self.length_sql}(worker_ids) - {self.length_sql}(worker) - 1"
        changes = {
            "worker_ids": f"CASE WHEN {new('attempts')} >= attempts THEN worker_ids "
            f"WHEN {left} > 0 THEN SUBSTR(worker_ids, 1, {left}) ELSE '' END"
        }
        if any(item.entry for _, item in returned):
            for row, (_, item) in zip(values, returned, strict=True):
                row |= {"failed_at": now if item.entry else None, "last_error": item.error, "errors": item.entry}
            errors = self.newest_sql(self.concat_sql("errors", new("errors")), "\n", MAX_ERRORS)
            changes |= {
                "errors": f"CASE WHEN {new('errors')} <> '' THEN {errors} ELSE errors END",
                "last_error": f"CASE WHEN {new('errors')} <> '' THEN {new('last_error')} ELSE last_error END",
                "failed_at": f"COALESCE({new('failed_at')}, failed_at)",
            }
        changes |= {"token": "NULL", "worker": "''", "claimed_at": "NULL", "lease_expires_at": "NULL", "started": "0"}
        rows = [list(row.values()) for row in values]
        self.upsert(list(values[0]), rows, changes | {name: new(name) for name in written})

    def _move_to_done(self, ended: Sequence[tuple[Decision, Outcome]], now: datetime) -> None:
        rows = [(item.id, outcome.value, item.result, item.error, item.entry) for item, outcome in ended]
        self.move("djqueue_donejob", ["id", "status", "result", "error", "entry"], rows, now, {"completed_at": now})

    def _move_to_dead(self, items: Sequence[Decision], now: datetime) -> None:
        self.move("djqueue_deadjob", ["id", "error", "entry"], [(i.id, i.error, i.entry) for i in items], now, {})

    # Control

    @own_transaction
    def cancel(self, ids: Sequence[UUID], keeps: Mapping[str, bool], keep: bool) -> list[CancelledJob]:
        now, rows = self.lock([NOT_IN_JOB.get(name, name) for name in RECORD], ids, skip_locked=False)
        found = [self.record(row) for row in rows]
        claimed = [record.id for record in found if record.status == Status.CLAIMED]
        gone = [record for record in found if record.status != Status.CLAIMED]
        for part in slices_of(claimed, IDS_AT_ONCE):
            sql = f"UPDATE djqueue_job {self.by_id_sql} SET cancel_requested = 1 WHERE id IN ({holders(part)})"
            self.execute(sql, [self.adapt(i) for i in part])
        cancelled = [CancelledJob(job, CancelOutcome.REQUESTED) for job in claimed]
        if gone:
            kept = [record.id for record in gone if keeps.get(record.queue, keep)]
            rows = [(job, Status.CANCELLED.value, None, "", "") for job in kept]
            columns = ["id", "status", "result", "error", "entry"]
            self.move("djqueue_donejob", columns, rows, now, {"completed_at": now})
            self.delete("djqueue_job", [record.id for record in gone])
            counts = Counts(now)
            for record in gone:
                counts.cell(record.queue, record.task).cancelled += 1
            Throughput.objects.using(self.alias).bulk_create(counts.cells.values())
            ended = [replace(record, status=Status.CANCELLED, completed_at=now) for record in gone]
            cancelled += [CancelledJob(record.id, CancelOutcome.REMOVED, record) for record in ended]
        return cancelled

    @own_transaction
    def requeue(self, requeues: Sequence[Requeue]) -> list[JobRecord]:
        dead = self._dead_and_not_live([item.id for item in requeues])
        given = {item.id: (item.id, item.args, item.kwargs, item.run_at) for item in requeues if item.id in dead}
        revived: list[JobRecord] = []
        for part in batches_of(list(given.values()), characters, ROWS_AT_ONCE):
            values, params = self.given_sql(["id", "args", "kwargs", "run_at"], part)
            now = self.now_sql()
            run_at = f"COALESCE(v.run_at, {now})"
            # A line of errors begins with a brace and contains no line break. It is marked once.
            marked = f"REPLACE({self.concat_sql(_NEWLINE, 'd.errors')}, '\n{{', '\n{_MARK}')"
            marked = f"SUBSTR(REPLACE({marked}, '{_MARK}{_MARK[1:]}', '{_MARK}'), 2)"
            rows = self.fetch(
                f"INSERT INTO djqueue_job ({', '.join(REVIVED)}, args, kwargs, errors, run_at, status) {values} "
                f"SELECT {', '.join(f'd.{name}' for name in REVIVED)}, COALESCE(v.args, d.args), "
                f"COALESCE(v.kwargs, d.kwargs), {marked}, {run_at}, "
                f"CASE WHEN {run_at} > {now} THEN 'scheduled' "
                "WHEN d.limit_key IS NULL THEN 'pending' ELSE 'blocked' END "
                f"FROM v {self.join_sql} djqueue_deadjob d ON d.id = v.id "
                f"RETURNING {', '.join(NOT_IN_JOB.get(name, name) for name in RECORD)}",
                params,
            )
            revived += [self.record(row) for row in rows]
        self.delete("djqueue_deadjob", list(given))
        return revived

    def _dead_and_not_live(self, ids: Sequence[UUID]) -> set[UUID]:
        found: set[UUID] = set()
        for part in slices_of(sorted(ids), IDS_AT_ONCE):
            where, params = f"{self.by_id_sql} WHERE id IN ({holders(part)})", [self.adapt(i) for i in part]
            dead = self.fetch(f"SELECT id FROM djqueue_deadjob {where} ORDER BY id {self.lock_sql}", params)
            live = self.fetch(f"SELECT id FROM djqueue_job {where}", params) if dead else []
            found |= {self.uuid(row[0]) for row in dead} - {self.uuid(row[0]) for row in live}
        return found

    @own_transaction
    def reschedule(self, ids: Sequence[UUID], run_at: datetime | None, priority: int | None) -> list[UUID]:
        _, rows = self.lock(["id", "status"], ids, skip_locked=False)
        waiting = [row[0] for row in rows if row[1] != Status.CLAIMED.value]
        for part in slices_of(waiting, IDS_AT_ONCE):
            self.execute(
                f"UPDATE djqueue_job {self.by_id_sql} SET "
                "priority = COALESCE(%s, priority), run_at = COALESCE(%s, run_at), "
                f"status = CASE WHEN COALESCE(%s, run_at) > {self.now_sql()} THEN 'scheduled' "
                "WHEN limit_key IS NULL OR status = 'pending' THEN 'pending' ELSE 'blocked' END "
                f"WHERE id IN ({holders(part)})",
                [priority, self.adapt(run_at), self.adapt(run_at), *part],
            )
        return [self.uuid(job) for job in waiting]

    # Lease

    @own_transaction
    def renew(self, renewals: Sequence[Renew], *, wait: bool) -> list[Renewed | None]:
        now, rows = self.hold([item.id for item in renewals], skip_locked=not wait)
        locked = set() if wait else self._locked(renewals, rows)
        ours = [(rows[item.id], item) for item in renewals if item.id in rows and rows[item.id].token == item.token]
        expiries = self._extend(ours, now) if ours else {}
        return [
            None
            if item.id in locked
            else Renewed(expiries[item.id], bool(rows[item.id].cancel_requested))
            if item.id in rows and rows[item.id].token == item.token
            else Renewed(None)
            for item in renewals
        ]

    def _extend(self, ours: Sequence[tuple[Held, Renew]], now: datetime) -> dict[UUID, datetime]:
        """Write new expiries and the other values of the renewals, and return the expiries."""
        values = [
            (
                row.id,
                row.started if item.started is None else item.started,
                item.progress,
                self.lease_value(row, item.lease, now),
            )
            for row, item in ours
        ]
        changes = {
            "started": self.new_sql("started"),
            "progress": f"COALESCE({self.new_sql('progress')}, progress)",
            "lease_expires_at": self.expiry_sql(),
        }
        columns = ["id", "started", "progress", self.lease_column]
        written = self.upsert(columns, values, changes, returning="id, lease_expires_at")
        return {self.uuid(job): self.instant(expiry) for job, expiry in written}

    def _locked(self, items: Sequence[Decision] | Sequence[Renew], held: Mapping[UUID, Held]) -> set[UUID]:
        """Return the rows that carry their tokens but could not be locked: another transaction has them locked."""
        missing = {item.id: item.token for item in items if item.id not in held}
        if not missing:
            return set()
        tokens = Job.objects.using(self.alias).filter(pk__in=missing).values_list("id", "token")
        return {job for job, token in tokens if token == missing[job]}


def _may_reap(row: Held, item: Decision, expired_at: datetime) -> bool:
    """Return whether the lease had expired by then, and a job that is to be returned has still not started."""
    expired = row.lease_expires_at is not None and row.lease_expires_at <= expired_at
    return expired and not (item.returned and row.started)


def _waiting_again(row: Held, item: Decision, now: datetime) -> dict[str, Any]:
    """Return the id of a job that waits again, and the columns whose values depend on what they were."""
    attempts = row.attempts - (not item.spent)
    never_started = not item.spent and not row.started and attempts == 0
    unknown_since = (row.unknown_since or now) if item.unknown else None if item.known else row.unknown_since
    return {
        "id": row.id,
        "status": (Status.SCHEDULED if item.delay else Status.BLOCKED if row.limit_key else Status.PENDING).value,
        "run_at": row.run_at if item.delay is None else now + timedelta(seconds=item.delay),
        "attempts": attempts,
        "started_at": None if never_started else row.started_at,
        "returns": row.returns + item.returned,
        "crashes": 0 if item.forgiven else row.crashes + item.crashed,
        "unknown_since": unknown_since,
    }
