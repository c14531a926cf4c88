"""SQLite has one writer at a time, so a transaction that starts as a writer needs no row locks.

The clock is the host's, and instants are stored as text, as Django writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import OperationalError, transaction

from djqueue.core.durations import instant
from djqueue.core.records import ClaimedRow, ClaimRequest

from .columns import CLAIMED, MAX_WORKER_IDS
from .common import holders
from .connection import IDS_AT_ONCE, own_transaction, slices_of
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
        """Take the write lock immediately: a reader that becomes a writer fails with "database is locked"."""
        connection: Any = self.connection
        connection.ensure_connection()  # the mode is known from then on
        mode, connection.transaction_mode = connection.transaction_mode, "IMMEDIATE"
        try:
            with transaction.atomic(using=self.alias):
                connection.transaction_mode = mode
                yield
        finally:
            connection.transaction_mode = mode

    def concat_sql(self, *texts: str) -> str:
        return f"({' || '.join(texts)})"

    def lock(self, columns: Sequence[str], ids: Sequence[UUID], *, skip_locked: bool) -> tuple[datetime, list[Any]]:
        found: list[Any] = []
        for part in slices_of(ids, IDS_AT_ONCE):
            sql = f"SELECT {', '.join(columns)} FROM djqueue_job WHERE id IN ({holders(part)})"
            found += self.fetch(sql, [self.adapt(i) for i in part])
        return self.now(), found

    @own_transaction
    def claim(self, request: ClaimRequest) -> list[ClaimedRow]:
        """Claim all for the lease that most queues have, and as begun; then correct the rows that differ.

        The clock is read when the write lock is held: a lease must not be spent waiting for it.
        """
        lease = request.usual_lease()
        found: list[ClaimedRow] = []
        differing: list[tuple[UUID, bool, datetime]] = []
        claimed = [(self.claimed(row[:-1]), row[-1]) for row in self.fetch(*self._claim_sql(request, lease))]
        claimed.sort(key=lambda pair: (pair[0].priority, pair[0].enqueued_at, pair[0].id))
        for place, (row, own_lease) in enumerate(claimed):
            seconds = request.lease_of(row.task, row.queue, own_lease)
            if seconds != lease:
                row = row._replace(lease_expires_at=row.claimed_at + seconds)
            found.append(row)
            if seconds != lease or place >= request.begin:
                differing.append((row.id, place < request.begin, instant(row.lease_expires_at)))
        columns = ["id", "started", "lease_expires_at"]
        self.upsert(columns, differing, {name: self.new_sql(name) for name in columns[1:]})
        return found

    def _claim_sql(self, request: ClaimRequest, lease: float) -> tuple[str, list[Any]]:
        """Return one UPDATE, with a branch per queue along djqueue_job_claim. That of a paused queue is empty."""
        now = self.now_sql()
        branch = """SELECT * FROM (
            SELECT id, priority, enqueued_at FROM djqueue_job
            WHERE status = 'pending' AND queue = %s
              AND NOT EXISTS (SELECT 1 FROM djqueue_queuestate s WHERE s.queue = %s AND s.paused)
            ORDER BY priority, enqueued_at, id LIMIT %s)"""
        workers = self.newest_sql("(worker_ids || %s || ',')", ",", MAX_WORKER_IDS)
        sql = f"""
            UPDATE djqueue_job SET
                status = 'claimed', token = %s, worker = %s, worker_ids = {workers}, started = 1,
                attempts = attempts + 1, claimed_at = {now}, last_attempted_at = {now},
                started_at = COALESCE(started_at, {now}), lease_expires_at = {self.later_sql(lease)}, progress = NULL,
                dedup_key = CASE WHEN dedup_until = 'done' THEN dedup_key END
            WHERE id IN (
                SELECT id FROM ({" UNION ALL ".join([branch] * len(request.wants))})
                ORDER BY priority, enqueued_at, id LIMIT %s)
            RETURNING {", ".join(CLAIMED)}, lease
        """
        holder = [self.adapt(request.token), request.worker, *[request.worker] * workers.count("%s")]
        branches = [value for queue, n in request.wants.items() for value in (queue, queue, n)]
        return sql, [*holder, *branches, request.limit]

    def promote(self, limit: int) -> list[str | None]:
        now = self.now_sql()
        sql = f"""
            UPDATE djqueue_job SET status = CASE WHEN limit_key IS NULL THEN 'pending' ELSE 'blocked' END
            WHERE id IN (SELECT id FROM djqueue_job WHERE status = 'scheduled' AND run_at <= {now}
                         ORDER BY run_at, id LIMIT %s)
            RETURNING limit_key
        """
        return [row[0] for row in self.own(lambda: self.fetch(sql, [limit]))]
