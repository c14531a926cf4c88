"""The statements that are the same on every database, and the records that are built from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from djqueue.core.records import ClaimedRow, Inserted, JobRecord, NewJob
from djqueue.states import Status

from .columns import (
    CLAIMED,
    CLAIMED_INSTANTS,
    NOT_IN_DEAD,
    READERS,
    RECORD,
    RECORD_INSTANTS,
    SELECTS,
    SELECTS_OF_STATE,
    WITHOUT_PAYLOAD,
    select_record,
)
from .connection import ROWS_AT_ONCE, batches_of, slices_of
from .contract import Statements

# The rows of djqueue_job_claim.
PENDING = "status = 'pending'"


class Common(Statements):
    """What every database inherits."""

    def discard(self, ids: Sequence[UUID]) -> None:
        if not ids:
            return
        self.execute(f"DELETE FROM djqueue_job WHERE id IN ({holders(ids)})", [self.adapt(i) for i in ids])

    def blocked_keys_sql(self) -> str:
        first = f"SELECT limit_key FROM djqueue_job WHERE status = 'blocked' {self.walk_sql} AND limit_key"
        return f"""
            WITH RECURSIVE hop(value, place) AS (
                SELECT ({first} > %s ORDER BY limit_key LIMIT 1), 1
                UNION ALL
                SELECT ({first} > hop.value ORDER BY limit_key LIMIT 1), place + 1
                FROM hop WHERE hop.value IS NOT NULL AND place < %s
            )
            SELECT value FROM hop WHERE value IS NOT NULL
        """

    def block(self, ids: Sequence[UUID]) -> None:
        for part in slices_of(ids, ROWS_AT_ONCE):
            sql = f"UPDATE djqueue_job SET status = 'blocked' WHERE id IN ({holders(part)})"
            self.execute(sql, [self.adapt(i) for i in part])

    def write_kv(self, kv: Mapping[str, str]) -> None:
        key = self.connection.ops.quote_name("key")
        conflict = self.upsert_sql(f"({key})", ["value", "updated_at", "expires_at"])
        for part in batches_of(kv.items(), lambda item: len(item[1]), ROWS_AT_ONCE):
            rows = ", ".join([f"(%s, %s, {self.now_sql()}, NULL)"] * len(part))
            self.execute(
                f"INSERT INTO djqueue_kv ({key}, value, updated_at, expires_at) VALUES {rows} {conflict}",
                [text for item in part for text in item],
            )

    # Read

    def get(self, job_id: UUID, payload: bool = True) -> JobRecord | None:
        return self.get_many([job_id], payload).get(job_id)

    def get_many(self, ids: Sequence[UUID], payload: bool = True) -> dict[UUID, JobRecord]:
        """Each part of the statement is a look-up by primary key."""
        selects = SELECTS if payload else SELECTS_OF_STATE
        where = f"WHERE id IN ({holders(ids)})"
        sql = " UNION ALL ".join(f"{select} {where}" for select in selects)
        found = [self.record(row) for row in self.fetch(sql, [self.adapt(i) for i in ids] * len(selects))]
        # The live row of a requeued job wins over one that an earlier life left in a history.
        return {record.id: record for record in reversed(found)}

    def dead_jobs(self, queue: str, after: UUID | None, limit: int, payload: bool = True) -> list[JobRecord]:
        """Read along djqueue_dead_queue."""
        absent = NOT_IN_DEAD if payload else NOT_IN_DEAD | WITHOUT_PAYLOAD
        sql = f"{select_record('djqueue_deadjob', absent)} WHERE queue = %s"
        params: list[Any] = [queue]
        if after is not None:
            sql += " AND id > %s"
            params.append(self.adapt(after))
        return [self.record(row) for row in self.fetch(f"{sql} ORDER BY id LIMIT %s", [*params, limit])]

    def claimable_queues(self) -> list[str]:
        rows = self.fetch(f"""
            SELECT value FROM ({self.distinct_sql("queue", "djqueue_job", PENDING)}) q
            WHERE NOT EXISTS (SELECT 1 FROM djqueue_queuestate s WHERE s.queue = q.value AND s.paused)
        """)
        return [row[0] for row in rows]

    def queues_in(self, table: str, condition: str = "true") -> list[str]:
        return self.distinct("queue", table, condition)

    def distinct(self, column: str, table: str, condition: str = "true") -> list[str]:
        return [row[0] for row in self.fetch(self.distinct_sql(column, table, condition))]

    def distinct_sql(self, column: str, table: str, condition: str) -> str:
        return f"""
            WITH RECURSIVE hop(value) AS (
                SELECT MIN({column}) FROM {table} WHERE {condition}
                UNION ALL
                SELECT (SELECT MIN({column}) FROM {table} WHERE {condition} AND {column} > hop.value)
                FROM hop WHERE hop.value IS NOT NULL
            )
            SELECT value FROM hop WHERE value IS NOT NULL
        """

    def oldest_pending(self) -> dict[str, datetime]:
        due = "CASE WHEN run_at > enqueued_at THEN run_at ELSE enqueued_at END"
        rows = self.fetch(f"SELECT queue, MIN({due}) FROM djqueue_job WHERE {PENDING} GROUP BY queue")
        return {queue: self.instant(since) for queue, since in rows}

    def oldest_done(self) -> dict[str, datetime]:
        """Read one entry of djqueue_done_sweep per queue."""
        first = "SELECT completed_at FROM djqueue_donejob d WHERE d.queue = q.value ORDER BY completed_at LIMIT 1"
        queues = self.distinct_sql("queue", "djqueue_donejob", "true")
        return {queue: self.instant(at) for queue, at in self.fetch(f"SELECT value, ({first}) FROM ({queues}) q")}

    # Rows

    def record(self, row: Sequence[Any]) -> JobRecord:
        """Build a record from a row of the RECORD columns."""
        values = dict(zip(RECORD, row, strict=True))
        for name, reader in READERS.items():
            values[name] = reader(values[name])
        for name in RECORD_INSTANTS:
            values[name] = self.instant(values[name])
        values["id"] = self.uuid(values["id"])
        return JobRecord(**values)

    def claimed(self, row: Sequence[Any]) -> ClaimedRow:
        """Build a ClaimedRow from a row of the CLAIMED columns."""
        values = dict(zip(CLAIMED, row, strict=True))
        for name in CLAIMED_INSTANTS:
            at = self.instant(values[name])
            values[name] = at and at.timestamp()
        values["id"] = self.uuid(values["id"])
        values["cancel_requested"] = bool(values["cancel_requested"])
        return ClaimedRow(**values)

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


def holders(values: Sequence[Any]) -> str:
    """Return placeholders for an IN list."""
    return ", ".join(["%s"] * len(values))
