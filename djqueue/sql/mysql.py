"""MariaDB: SELECT … FOR UPDATE SKIP LOCKED, then UPDATE, in one short READ COMMITTED transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import OperationalError

from djqueue.core.records import ClaimedRow, ClaimRequest

from .columns import CLAIMED, MAX_WORKER_IDS
from .common import PENDING, holders
from .connection import IDS_AT_ONCE, INTERRUPT_WITHIN, LockTimeout, own_transaction, slices_of
from .portable import Portable
from .rows import Held, newest

LOCK_WAIT_TIMEOUT = 1205
DEADLOCK = 1213
RECORD_CHANGED = 1020
CONNECTION_LOST = (2006, 2013)
REFUSED = (1153, 1366)  # packet too large, incorrect string value


class MySQL(Portable):
    skip_conflict_sql = ""  # INSERT IGNORE would also ignore other errors
    lock_sql = "FOR UPDATE"
    skip_locked_sql = "FOR UPDATE SKIP LOCKED"
    blocked_sql = "FORCE INDEX (djqueue_job_blocked)"
    length_sql = "CHAR_LENGTH"
    join_sql = "STRAIGHT_JOIN"
    # Where the ids are most of the table, MariaDB would scan it whole, and wait for rows that are not among them.
    by_id_sql = "FORCE INDEX (PRIMARY)"
    lease_column = "lease"

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

    def is_too_large(self, error: Exception, size: int) -> bool:
        # A server that receives too large a packet closes the connection, often before its error can be read. In an
        # outage it does not answer, or it accepts statements of this size: then trying smaller ones is of no use.
        if not isinstance(error, OperationalError) or error.args[0] not in CONNECTION_LOST:
            return False
        self.connection.close()
        try:
            return size > int(self.fetch("SELECT @@max_allowed_packet")[0][0])
        except OperationalError:
            return False

    def fetch_soon(self, sql: str, params: Sequence[Any] = ()) -> list[Any]:
        try:
            return self.fetch(f"SET STATEMENT innodb_lock_wait_timeout = 1 FOR {sql}", params)
        except OperationalError as error:
            if error.args[0] == LOCK_WAIT_TIMEOUT:
                raise LockTimeout from error
            raise

    def session_id(self) -> int | None:
        driver: Any = self.connection.connection
        return int(driver.thread_id())

    def interrupt(self, session_id: int | None) -> None:
        other = self.connection.copy()
        other.settings_dict["OPTIONS"] = {
            **other.settings_dict["OPTIONS"],
            **dict.fromkeys(["connect_timeout", "read_timeout", "write_timeout"], INTERRUPT_WITHIN),
        }
        try:
            with other.cursor() as cursor:
                cursor.execute("KILL QUERY %s", [session_id])
        finally:
            other.close()

    @contextmanager
    def begin(self) -> Iterator[None]:
        self.connection.ensure_connection()  # the level is known from then on
        if self.connection.isolation_level != "read committed":  # type: ignore[attr-defined]
            # For the next transaction only: REPEATABLE READ would lock gaps that enqueuers need.
            self.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        with super().begin():
            yield

    def current_sql(self) -> str:
        return "" if self.connection.isolation_level == "read committed" else "LOCK IN SHARE MODE"  # type: ignore[attr-defined]

    def on_conflict_sql(self, key: str) -> str:
        return "ON DUPLICATE KEY UPDATE"

    def new_sql(self, column: str) -> str:
        return f"VALUES({column})"

    def concat_sql(self, *texts: str) -> str:
        return f"CONCAT({', '.join(texts)})"

    def lease_value(self, row: Held, seconds: float | None, now: datetime) -> Any:
        return seconds

    def delete_sql(self, table: str, count: int) -> str:
        # One look-up per id: a range of the primary key would also wait for the row after each of them.
        ids = f"WITH v(id) AS (VALUES {', '.join(['(%s)'] * count)}) SELECT id FROM v"
        return f"DELETE j FROM ({ids}) AS v STRAIGHT_JOIN {table} AS j ON j.id = v.id"

    def expiry_sql(self) -> str:
        # Counted from this statement, which runs when the row is locked: the clock of a statement that waits for a lock
        # shows the time before it waited.
        return "COALESCE(UTC_TIMESTAMP(6) + INTERVAL ROUND(VALUES(lease) * 1000000) MICROSECOND, lease_expires_at)"

    def lock(self, columns: Sequence[str], ids: Sequence[UUID], *, skip_locked: bool) -> tuple[datetime, list[Any]]:
        found: list[Any] = []
        now = datetime.now(UTC)  # unused if there are no rows
        for part in slices_of(sorted(ids), IDS_AT_ONCE):
            rows = self.fetch(
                f"SELECT UTC_TIMESTAMP(6), {', '.join(columns)} FROM djqueue_job {self.by_id_sql} "
                f"WHERE id IN ({holders(part)}) ORDER BY id FOR UPDATE {'SKIP LOCKED' if skip_locked else ''}",
                [self.adapt(i) for i in part],
            )
            if rows:
                now = self.instant(rows[0][0])
            found += [row[1:] for row in rows]
        return now, found

    def distinct_sql(self, column: str, table: str, condition: str) -> str:
        # A loose index scan reads one entry per value, however many rows have it; a recursive CTE reads all rows, and
        # ends after max_recursive_iterations. With an equality in place of the IN, MariaDB would not choose it.
        if condition != PENDING:
            return f"SELECT {column} AS value FROM {table} WHERE {condition} GROUP BY {column}"
        return (
            f"SELECT {column} AS value FROM {table} FORCE INDEX (djqueue_job_claim) "
            f"WHERE status IN ('pending', '') GROUP BY status, {column}"
        )

    def blocked_keys_sql(self) -> str:
        # A loose index scan: see distinct_sql.
        return (
            f"SELECT limit_key FROM djqueue_job {self.blocked_sql} WHERE status IN ('blocked', '') AND limit_key > %s "
            "GROUP BY status, limit_key ORDER BY limit_key LIMIT %s"
        )

    @own_transaction
    def claim(self, request: ClaimRequest) -> list[ClaimedRow]:
        """Select by a branch per queue along djqueue_job_claim, then write one upsert by primary key."""
        columns = [name for name in CLAIMED if name not in ("claimed_at", "lease_expires_at")]
        branch = f"""(
            SELECT {", ".join(columns)}, dedup_until, lease
            FROM djqueue_job FORCE INDEX (djqueue_job_claim)
            WHERE status = 'pending' AND queue = %s
              AND NOT EXISTS (SELECT 1 FROM djqueue_queuestate s WHERE s.queue = %s AND s.paused)
            ORDER BY priority, enqueued_at, id LIMIT %s FOR UPDATE SKIP LOCKED)"""
        sql = " UNION ALL ".join([branch] * len(request.wants))
        if len(request.wants) > 1:
            sql += " ORDER BY priority, enqueued_at, id LIMIT %s"
        params = [value for queue, n in request.wants.items() for value in (queue, queue, min(n, request.limit))]
        rows = self.fetch(sql, params + [request.limit] * (len(request.wants) > 1))
        found = [dict(zip([*columns, "dedup_until", "lease"], row, strict=True)) for row in rows]
        if found:
            self._mark_claimed(request, found)
        return [self.claimed([values[name] for name in CLAIMED]) for values in found]

    def _mark_claimed(self, request: ClaimRequest, rows: Sequence[dict[str, Any]]) -> None:
        """Write the claim to the rows, and to the given values, which become those of the claimed rows."""
        leases = [request.lease_of(values["task"], values["queue"], values["lease"]) for values in rows]
        given = [(values["id"], place < request.begin, leases[place]) for place, values in enumerate(rows)]
        workers = self.newest_sql("CONCAT(worker_ids, %s, ',')", ",", MAX_WORKER_IDS)
        changes = {
            "status": "'claimed'",
            "token": "%s",
            "worker": "%s",
            "worker_ids": workers,
            "started": self.new_sql("started"),
            "attempts": "attempts + 1",
            "claimed_at": "UTC_TIMESTAMP(6)",
            "last_attempted_at": "UTC_TIMESTAMP(6)",
            "started_at": "COALESCE(started_at, UTC_TIMESTAMP(6))",
            "lease_expires_at": self.expiry_sql(),
            "progress": "NULL",
            "dedup_key": "IF(dedup_until = 'done', dedup_key, NULL)",
        }
        params = [self.adapt(request.token), request.worker, *[request.worker] * workers.count("%s")]
        written = self.upsert(["id", "started", "lease"], given, changes, params, returning="id, claimed_at")
        claimed_at = dict(written)
        for values, lease in zip(rows, leases, strict=True):
            now = claimed_at[values["id"]]
            values["claimed_at"], values["lease_expires_at"] = now, now + timedelta(seconds=lease)
            values["started_at"] = values["started_at"] or now
            values["attempts"] += 1
            values["worker_ids"] = newest(f"{values['worker_ids']}{request.worker},", ",", MAX_WORKER_IDS)
            values["dedup_key"] = values["dedup_key"] if values["dedup_until"] == "done" else None

    @own_transaction
    def promote(self, limit: int) -> list[str | None]:
        due = self.fetch(
            """
            SELECT id, limit_key FROM djqueue_job FORCE INDEX (djqueue_job_due)
            WHERE status = 'scheduled' AND run_at <= UTC_TIMESTAMP(6)
            ORDER BY run_at, id LIMIT %s FOR UPDATE SKIP LOCKED
            """,
            [limit],
        )
        if due:
            ids = [row[0] for row in due]
            status = "CASE WHEN limit_key IS NULL THEN 'pending' ELSE 'blocked' END"
            sql = f"UPDATE djqueue_job {self.by_id_sql} SET status = {status} WHERE id IN ({holders(ids)})"
            self.execute(sql, ids)
        return [row[1] for row in due]
