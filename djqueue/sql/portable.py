"""The statements of databases without data-modifying CTEs: the same transitions in a few statements of one short
transaction, which holds the rows that it decides on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.db import IntegrityError
from django.db.models import F
from django.db.models.functions import Coalesce

from djqueue.exceptions import DuplicateJob
from djqueue.models import DeadJob, DoneJob, Job, Throughput
from djqueue.payload import decode
from djqueue.records import (
    CancelledJob,
    Inserted,
    JobRecord,
    NewJob,
    Renew,
    Renewal,
    Requeue,
    Settled,
    Settlement,
    record_of,
)
from djqueue.states import CancelOutcome, Outcome, Status

from . import rules
from .base import CONFLICT_TRIES, GIVEN, RETURNED_BY_INSERT, Statements, holders

_RETURNED = (Outcome.RETRYING, Outcome.SNOOZED, Outcome.RELEASED)
R = TypeVar("R")

# Of about forty columns each: SQLite takes 32,766 parameters.
ROWS_AT_ONCE = 700

_RETURNED_FIELDS = (
    "status run_at token worker claimed_at lease_expires_at attempts worker_ids started_at started returns crashes "
    "unknown_since failed_at last_error errors"
).split()


class Portable(Statements):
    """SQLite and MariaDB."""

    lock_sql = ""  # makes a read see, and hold, what is committed now

    @abstractmethod
    def lock_jobs(self, ids: Sequence[UUID], *, skip_locked: bool) -> tuple[datetime, dict[UUID, Job]]:
        """The present, and the rows, held until the transaction ends."""

    def put_back(self, queue: str, tasks: Sequence[str], limit: int, first: float, last: float, grace: float) -> int:
        return self.own_transaction(lambda: self._put_back(queue, tasks, limit, first, last, grace))

    def _put_back(self, queue: str, tasks: Sequence[str], limit: int, first: float, last: float, grace: float) -> int:
        pending = Job.objects.using(self.alias).filter(status=Status.PENDING.value)
        now = self.now()
        ahead = pending.filter(queue=queue).order_by("priority", "enqueued_at", "id")
        by_delay: dict[int, list[UUID]] = {}
        for job, task, since in ahead.values_list("id", "task", "unknown_since")[:limit]:
            age = 0.0 if since is None else (now - since).total_seconds()
            if task in tasks and (since is None or age < grace):
                by_delay.setdefault(round(min(max(age, first), last)), []).append(job)
        return sum(
            pending.filter(id__in=ids).update(
                status=Status.SCHEDULED.value,
                run_at=now + timedelta(seconds=delay),
                unknown_since=Coalesce(F("unknown_since"), now),
            )
            for delay, ids in by_delay.items()
        )

    # Enqueue

    def insert(self, jobs: Sequence[NewJob], kv: Mapping[str, str]) -> list[Inserted]:
        own_ids = any(job.own_id for job in jobs)
        found = (self.own_transaction if kv or own_ids else self.own)(lambda: self._insert(jobs, kv))
        return [found[job.id] for job in jobs]

    def _insert(self, jobs: Sequence[NewJob], kv: Mapping[str, str]) -> dict[UUID, Inserted]:
        found: dict[UUID, Inserted] = {}
        # Several statements, one clock: the order of a batch is told by their places behind it.
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
                # The statement alone is undone: the transaction stays usable.
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
                continue  # whoever was in the way is gone
            # The look at the history comes after the insert, which has waited for whoever was moving the job there.
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
                f"CASE WHEN {run_at} <= {now} THEN 'pending' ELSE 'scheduled' END)"
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

    # Settle

    def settle(self, settlements: Sequence[Settlement], *, reaping: bool = False) -> list[Settled]:
        return self.own_transaction(lambda: self._settle(settlements, reaping))

    def _settle(self, settlements: Sequence[Settlement], reaping: bool) -> list[Settled]:
        now, rows = self.lock_jobs([item.id for item in settlements], skip_locked=reaping)
        settled: list[Settled] = []
        returned: list[Job] = []
        gone: list[tuple[Job, Settlement, Outcome]] = []
        counts = rules.Counts(now)
        for item in settlements:
            row = rows.get(item.id)
            if row is None or row.token != item.token or (reaping and not rules.expired(row, now)):
                settled.append(Settled(Outcome.LOST))
                continue
            outcome = rules.decide(row, item)
            settled.append(Settled(outcome, row.attempts))
            if outcome in _RETURNED:
                rules.give_back(row, item, outcome, now)
                returned.append(row)
            else:
                rules.record_failure(row, item, now)
                gone.append((row, item, outcome))
            counts.add(row, item, outcome)
        if returned:
            self._update(returned, _RETURNED_FIELDS)
        if gone:
            Job.objects.using(self.alias).filter(pk__in=[row.pk for row, _, _ in gone])._raw_delete(self.alias)
            self._replace([rules.done(*one, now) for one in gone if one[2] != Outcome.DEAD and one[1].keep_done])
            self._replace([DeadJob(**rules.kept(row)) for row, _, outcome in gone if outcome == Outcome.DEAD])
        if counts.cells:
            Throughput.objects.using(self.alias).bulk_create(counts.cells.values())
        return settled

    def _update(self, rows: Sequence[Job], columns: Sequence[str]) -> None:
        """Write the given columns of rows that we hold: an upsert that never inserts, linear where CASEs are not."""
        for part in parts_of(rows):
            self._write("INSERT", part, self.upsert_sql("(id)", columns))

    def _replace(self, rows: Sequence[DoneJob] | Sequence[DeadJob]) -> None:
        """Insert history rows over what an earlier life of the job may have left under its id."""
        for part in parts_of(rows):
            self._write("REPLACE", part, "")

    def _write(self, verb: str, rows: Sequence[Any], conflict: str) -> None:
        fields = rows[0]._meta.concrete_fields
        row = f"({holders(fields)})"
        self.execute(
            f"{verb} INTO {rows[0]._meta.db_table} ({', '.join(str(field.column) for field in fields)}) "
            f"VALUES {', '.join([row] * len(rows))} {conflict}",
            [field.get_db_prep_save(getattr(row, field.attname), self.connection) for row in rows for field in fields],
        )

    # Steer

    def cancel(self, ids: Sequence[UUID], keep: bool, otherwise: Sequence[str]) -> list[CancelledJob]:
        return self.own_transaction(lambda: self._cancel(ids, keep, otherwise))

    def _cancel(self, ids: Sequence[UUID], keep: bool, otherwise: Sequence[str]) -> list[CancelledJob]:
        now, rows = self.lock_jobs(ids, skip_locked=False)
        claimed = [row for row in rows.values() if row.status == Status.CLAIMED.value]
        gone = [row for row in rows.values() if row.status != Status.CLAIMED.value]
        jobs = Job.objects.using(self.alias)
        if claimed:
            jobs.filter(pk__in=[row.pk for row in claimed]).update(cancel_requested=True)
        cancelled = [CancelledJob(row.pk, CancelOutcome.REQUESTED) for row in claimed]
        if gone:
            jobs.filter(pk__in=[row.pk for row in gone])._raw_delete(self.alias)
            ended = [DoneJob(**rules.kept(row), status=Status.CANCELLED.value, completed_at=now) for row in gone]
            self._replace([row for row in ended if (row.queue in otherwise) != keep])
            counts = rules.Counts(now)
            for row in gone:
                counts.cell(row.queue, row.task).cancelled += 1
            Throughput.objects.using(self.alias).bulk_create(counts.cells.values())
            cancelled += [CancelledJob(row.pk, CancelOutcome.REMOVED, record_of(row)) for row in ended]
        return cancelled

    def requeue(self, requeues: Sequence[Requeue]) -> list[JobRecord]:
        return self.own_transaction(lambda: self._requeue({item.id: item for item in requeues}))

    def _requeue(self, requeues: Mapping[UUID, Requeue]) -> list[JobRecord]:
        dead_jobs = DeadJob.objects.using(self.alias)
        live_jobs = Job.objects.using(self.alias)
        dead = list(dead_jobs.select_for_update().filter(pk__in=list(requeues)).order_by("pk"))
        live = set(live_jobs.filter(pk__in=[row.pk for row in dead]).values_list("pk", flat=True))
        dead = [row for row in dead if row.pk not in live]
        if not dead:
            return []
        now = self.now()
        jobs = [rules.revived(row, requeues[row.pk], now) for row in dead]
        live_jobs.bulk_create(jobs)
        dead_jobs.filter(pk__in=[row.pk for row in dead])._raw_delete(self.alias)
        return [record_of(job) for job in jobs]

    def reschedule(self, ids: Sequence[UUID], run_at: datetime | None, priority: int | None) -> list[UUID]:
        return self.own_transaction(lambda: self._reschedule(ids, run_at, priority))

    def _reschedule(self, ids: Sequence[UUID], run_at: datetime | None, priority: int | None) -> list[UUID]:
        now, rows = self.lock_jobs(ids, skip_locked=False)
        waiting = [row for row in rows.values() if row.status != Status.CLAIMED.value]
        for row in waiting:
            row.priority = row.priority if priority is None else priority
            row.run_at = run_at or row.run_at
            row.status = rules.waiting_status(row.run_at, now)
        self._update(waiting, ["priority", "run_at", "status"])
        return [row.pk for row in waiting]

    # Lease

    def renew(self, renewals: Sequence[Renew], *, wait: bool) -> list[Renewal | None]:
        return self.own_transaction(lambda: self._renew(renewals, wait))

    def _renew(self, renewals: Sequence[Renew], wait: bool) -> list[Renewal | None]:
        now, rows = self.lock_jobs([item.id for item in renewals], skip_locked=not wait)
        answers: list[Renewal | None] = []
        renewed: list[Job] = []
        for item in renewals:
            row = rows.get(item.id)
            if row is None or row.token != item.token:
                answers.append(Renewal(None))
                continue
            if item.lease is not None:
                row.lease_expires_at = now + timedelta(seconds=item.lease)
            if item.started is not None:
                row.started = item.started
            if item.progress is not None:
                row.progress = decode(item.progress)
            renewed.append(row)
            answers.append(Renewal(row.lease_expires_at, row.cancel_requested))
        if not wait:
            answers = self._tell_skipped(renewals, answers)
        if renewed:
            self._update(renewed, ["lease_expires_at", "started", "progress"])
        return answers

    def _tell_skipped(self, renewals: Sequence[Renew], answers: list[Renewal | None]) -> list[Renewal | None]:
        """Tell rows that are locked by somebody from rows that are no longer ours."""
        unsure = {item.id for item, answer in zip(renewals, answers, strict=True) if answer == Renewal(None)}
        if not unsure:
            return answers
        tokens = dict(Job.objects.using(self.alias).filter(pk__in=unsure).values_list("id", "token"))
        return [
            None if item.id in unsure and tokens.get(item.id) == item.token else answer
            for item, answer in zip(renewals, answers, strict=True)
        ]


def parts_of(rows: Sequence[R]) -> Iterator[Sequence[R]]:
    """As many rows as SQLite takes parameters for."""
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]
