"""SQLite: one writer at a time, so a transaction that starts as a writer needs no row locks.

The clock is the host's, and instants are texts as Django writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import OperationalError, transaction

from djqueue.models import Job
from djqueue.records import ClaimedRow, ClaimRequest

from .base import CLAIMED
from .portable import Portable


class SQLite(Portable):
    def now(self) -> datetime:
        return datetime.now(UTC)

    def now_sql(self) -> str:
        self._clock = self.now()
        return self.later_sql(0)

    def later_sql(self, seconds: float) -> str:
        return f"'{self.adapt(self._clock + timedelta(seconds=seconds))}'"

    def adapt(self, value: Any) -> Any:
        if isinstance(value, UUID):
            return value.hex
        if isinstance(value, datetime):
            return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ")
        return value

    def instant(self, value: Any) -> Any:
        # Django's converter knows columns by their declared type, which a UNION does not have.
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        return None if value is None else value.replace(tzinfo=UTC)

    def uuid(self, value: Any) -> UUID:
        return UUID(value)

    def is_conflict(self, error: OperationalError) -> bool:
        return "locked" in str(error) or "busy" in str(error)

    @contextmanager
    def begin(self) -> Iterator[None]:
        """Take the write lock at once: a reader that turns writer meets "database is locked" without waiting."""
        connection: Any = self.connection
        connection.ensure_connection()  # which is when the mode is known
        mode, connection.transaction_mode = connection.transaction_mode, "IMMEDIATE"
        try:
            with transaction.atomic(using=self.alias):
                connection.transaction_mode = mode
                yield
        finally:
            connection.transaction_mode = mode

    def lock_jobs(self, ids: Sequence[UUID], *, skip_locked: bool) -> tuple[datetime, dict[UUID, Job]]:
        return self.now(), Job.objects.using(self.alias).in_bulk(ids)

    def claim(self, request: ClaimRequest) -> list[ClaimedRow]:
        # The clock is read when the write lock is ours: a lease must not be spent waiting for it.
        rows = self.own_transaction(lambda: self.fetch(*self._claim_sql(request)))
        found = [self.claimed(row) for row in rows]
        found.sort(key=lambda row: (row.priority, row.enqueued_at, row.id))
        return found

    def _claim_sql(self, request: ClaimRequest) -> tuple[str, list[Any]]:
        """One UPDATE: a branch per queue along djqueue_job_claim; a paused queue's is empty."""
        now = self.now_sql()
        lease, lease_params = self._lease_sql(request, now)
        branch = """SELECT * FROM (
            SELECT id, priority, enqueued_at FROM djqueue_job
            WHERE status = 'pending' AND queue = %s
              AND NOT EXISTS (SELECT 1 FROM djqueue_queuestate s WHERE s.queue = %s AND s.paused)
            ORDER BY priority, enqueued_at, id LIMIT %s)"""
        sql = f"""
            UPDATE djqueue_job SET
                status = 'claimed', token = %s, worker = %s, worker_ids = worker_ids || %s || ',', started = %s,
                attempts = attempts + 1, claimed_at = {now}, last_attempted_at = {now},
                started_at = COALESCE(started_at, {now}), lease_expires_at = {lease}, progress = NULL,
                dedup_key = CASE WHEN dedup_until = 'done' THEN dedup_key END
            WHERE id IN (
                SELECT id FROM ({" UNION ALL ".join([branch] * len(request.wants))})
                ORDER BY priority, enqueued_at, id LIMIT %s)
            RETURNING {", ".join(CLAIMED)}
        """
        holder = [self.adapt(request.token), request.worker, request.worker, request.started]
        branches = [value for queue, n in request.wants.items() for value in (queue, queue, n)]
        return sql, [*holder, *lease_params, *branches, request.limit]

    def _lease_sql(self, request: ClaimRequest, now: str) -> tuple[str, list[Any]]:
        """The expiry of each lease: the claimer's word, else the call's, the task's, the queue's."""
        if request.lease is not None:
            return self.later_sql(request.lease), []
        # strftime rounds to milliseconds: half a one less makes that rounding down.
        exact = f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', {now}, (lease - 0.0005) || ' seconds')"
        cases = [f"WHEN lease IS NOT NULL THEN {exact}"]
        cases += [f"WHEN task = %s THEN {self.later_sql(seconds)}" for seconds in request.task_leases.values()]
        cases += [f"WHEN queue = %s THEN {self.later_sql(request.leases[queue])}" for queue in request.wants]
        return f"CASE {' '.join(cases)} END", [*request.task_leases, *request.wants]

    def promote(self, limit: int) -> list[str]:
        now = self.now_sql()
        sql = f"""
            UPDATE djqueue_job SET status = 'pending'
            WHERE id IN (SELECT id FROM djqueue_job WHERE status = 'scheduled' AND run_at <= {now}
                         ORDER BY run_at, id LIMIT %s)
            RETURNING queue
        """
        return [row[0] for row in self.own(lambda: self.fetch(sql, [limit]))]
