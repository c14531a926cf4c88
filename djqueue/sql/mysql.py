"""MariaDB: SELECT … FOR UPDATE SKIP LOCKED, then UPDATE, in one short READ COMMITTED transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import OperationalError
from django.db.models import DateTimeField
from django.db.models.expressions import RawSQL

from djqueue.conf import first
from djqueue.models import Job
from djqueue.records import ClaimedRow, ClaimRequest

from .base import CLAIMED, holders
from .portable import Portable

LOCK_WAIT_TIMEOUT = 1205
DEADLOCK = 1213
RECORD_CHANGED = 1020
REFUSED = (1153, 1366)  # packet too large, incorrect string value


class MySQL(Portable):
    lock_sql = "FOR UPDATE"

    def now(self) -> datetime:
        return self.instant(self.fetch("SELECT UTC_TIMESTAMP(6)")[0][0])  # type: ignore[no-any-return]

    def now_sql(self) -> str:
        return "UTC_TIMESTAMP(6)"

    def later_sql(self, seconds: float) -> str:
        return f"(UTC_TIMESTAMP(6) + INTERVAL {seconds:.6f} SECOND)"

    def adapt(self, value: Any) -> Any:
        if isinstance(value, UUID):
            return str(value) if self.connection.features.has_native_uuid_field else value.hex
        if isinstance(value, datetime):
            return value.astimezone(UTC).replace(tzinfo=None)
        return value

    def instant(self, value: Any) -> Any:
        return None if value is None else value.replace(tzinfo=UTC)

    def uuid(self, value: Any) -> UUID:
        return value if isinstance(value, UUID) else UUID(value)

    def is_conflict(self, error: OperationalError) -> bool:
        return error.args[0] in (DEADLOCK, LOCK_WAIT_TIMEOUT, RECORD_CHANGED)

    def is_refusal(self, error: Exception) -> bool:
        return super().is_refusal(error) or (isinstance(error, OperationalError) and error.args[0] in REFUSED)

    @contextmanager
    def begin(self) -> Iterator[None]:
        self.connection.ensure_connection()  # which is when the level is known
        if self.connection.isolation_level != "read committed":  # type: ignore[attr-defined]
            # For the next transaction only: REPEATABLE READ would lock gaps that enqueuers need.
            self.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        with super().begin():
            yield

    def upsert_sql(self, key: str, columns: Sequence[str]) -> str:
        return f"ON DUPLICATE KEY UPDATE {', '.join(f'{name} = VALUES({name})' for name in columns)}"

    def lock_jobs(self, ids: Sequence[UUID], *, skip_locked: bool) -> tuple[datetime, dict[UUID, Job]]:
        clock = RawSQL("UTC_TIMESTAMP(6)", [], output_field=DateTimeField())
        jobs = Job.objects.using(self.alias).filter(pk__in=ids).order_by("pk").annotate(clock=clock)
        rows = list(jobs.select_for_update(skip_locked=skip_locked))
        now = rows[0].clock if rows else datetime.now(UTC)  # nothing to date without rows
        return now, {row.pk: row for row in rows}

    def claim(self, request: ClaimRequest) -> list[ClaimedRow]:
        return self.own_transaction(lambda: self._claim(request))

    def _claim(self, request: ClaimRequest) -> list[ClaimedRow]:
        """A branch per queue along djqueue_job_claim, then one UPDATE by primary key."""
        columns = [name for name in CLAIMED if name not in ("claimed_at", "lease_expires_at")]
        branch = f"""(
            SELECT {", ".join(columns)}, dedup_until, lease, UTC_TIMESTAMP(6) AS clock
            FROM djqueue_job FORCE INDEX (djqueue_job_claim)
            WHERE status = 'pending' AND queue = %s
              AND NOT EXISTS (SELECT 1 FROM djqueue_queuestate s WHERE s.queue = %s AND s.paused)
            ORDER BY priority, enqueued_at, id LIMIT %s FOR UPDATE SKIP LOCKED)"""
        sql = " UNION ALL ".join([branch] * len(request.wants))
        if len(request.wants) > 1:
            sql += " ORDER BY priority, enqueued_at, id LIMIT %s"
        params = [value for queue, n in request.wants.items() for value in (queue, queue, min(n, request.limit))]
        found = []
        for row in self.fetch(sql, params + [request.limit] * (len(request.wants) > 1)):
            values = dict(zip([*columns, "dedup_until", "lease", "claimed_at"], row, strict=True))
            lease = first(
                request.lease,
                values.pop("lease"),
                request.task_leases.get(values["task"]),
                request.leases[values["queue"]],
            )
            # What the UPDATE will make of the row.
            values["attempts"] += 1
            values["started_at"] = values["started_at"] or values["claimed_at"]
            values["worker_ids"] += f"{request.worker},"
            values["dedup_key"] = values["dedup_key"] if values["dedup_until"] == "done" else None
            values["lease_expires_at"] = values["claimed_at"] + timedelta(seconds=lease)
            found.append(self.claimed([values[name] for name in CLAIMED]))
        if found:
            self._mark_claimed(request, found)
        return found

    def _mark_claimed(self, request: ClaimRequest, rows: Sequence[ClaimedRow]) -> None:
        now = self.adapt(rows[0].claimed_at)
        ids = [self.adapt(row.id) for row in rows]
        expiries = [self.adapt(row.lease_expires_at) for row in rows]
        if len(set(expiries)) == 1:
            expiry, expiry_params = "%s", expiries[:1]
        else:
            expiry = f"CASE id {'WHEN %s THEN %s ' * len(rows)} END"
            expiry_params = [value for pair in zip(ids, expiries, strict=True) for value in pair]
        self.execute(
            f"""
            UPDATE djqueue_job SET
                status = 'claimed', token = %s, worker = %s, worker_ids = CONCAT(worker_ids, %s, ','), started = %s,
                attempts = attempts + 1, claimed_at = %s, last_attempted_at = %s,
                started_at = COALESCE(started_at, %s), lease_expires_at = {expiry}, progress = NULL,
                dedup_key = IF(dedup_until = 'done', dedup_key, NULL)
            WHERE id IN ({holders(rows)})
            """,
            [
                self.adapt(request.token),
                *[request.worker, request.worker, request.started],
                *[now, now, now],
                *expiry_params,
                *ids,
            ],
        )

    def promote(self, limit: int) -> list[str]:
        return self.own_transaction(lambda: self._promote(limit))

    def _promote(self, limit: int) -> list[str]:
        due = self.fetch(
            """
            SELECT id, queue FROM djqueue_job FORCE INDEX (djqueue_job_due)
            WHERE status = 'scheduled' AND run_at <= UTC_TIMESTAMP(6)
            ORDER BY run_at, id LIMIT %s FOR UPDATE SKIP LOCKED
            """,
            [limit],
        )
        if due:
            ids = [row[0] for row in due]
            self.execute(f"UPDATE djqueue_job SET status = 'pending' WHERE id IN ({holders(ids)})", ids)
        return [row[1] for row in due]
