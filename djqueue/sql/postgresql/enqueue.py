"""Insert jobs: one, several, or many by COPY, and the kv of a new job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from djqueue.core import channels
from djqueue.core.records import SHARED, Inserted, NewJob
from djqueue.sql.columns import GIVEN, KEPT, RETURNED_BY_INSERT, postgresql_types
from djqueue.states import Status

from .arrays import WAKE_FOR_BLOCKED, WAKE_FOR_PENDING, given, listed, status_at

INSERT_COLUMNS = postgresql_types(NewJob, leave_out=["own_id", "replace", "max_wait"])
_KEPT = ", ".join(KEPT)
COPY_PART = 200  # jobs
COPY = f"COPY djqueue_job ({', '.join(GIVEN)}, enqueued_at, run_at, status) FROM STDIN"


def is_plain(job: NewJob) -> bool:
    """Return whether the job is due now and cannot conflict with another, as most are."""
    return not (job.own_id or job.dedup_key or job.run_at or job.delay or job.place)


# Texts that most jobs have. A parameter takes longer to send than a constant.
_USUAL = {"args": "[]", "kwargs": "{}"} | {
    name: text for name, text in NewJob._field_defaults.items() if name in GIVEN and isinstance(text, str)
}


def plain_values(job: NewJob) -> dict[str, Any]:
    """Return the columns that are set, except for those with the usual texts."""
    return {
        name: value
        for name in GIVEN
        if (value := getattr(job, name)) is not None and (name not in _USUAL or value != _USUAL[name])
    }


@cache
def insert_plain_sql(columns: tuple[str, ...], notify: bool) -> str:
    """Return an INSERT that returns the time and, at the end, the process of the server."""
    status, wake = ("blocked", WAKE_FOR_BLOCKED) if "limit_key" in columns else ("pending", WAKE_FOR_PENDING)
    values = dict.fromkeys(columns, "%s") | {name: f"'{text}'" for name, text in _USUAL.items() if name not in columns}
    return f"""
    INSERT INTO djqueue_job AS j ({", ".join(values)}, enqueued_at, run_at, status)
    VALUES ({", ".join(values.values())}, statement_timestamp(), statement_timestamp(), '{status}')
    RETURNING date_part('epoch', j.enqueued_at) {wake if notify else ""}, pg_backend_pid()
    """


def due_later(job: NewJob, now: datetime) -> Inserted:
    """Return the row of a job that has a time or a delay; its time may have come already."""
    run_at = job.run_at or now + timedelta(seconds=job.delay)
    return Inserted(job.id, True, status_when_due(job) if run_at <= now else Status.SCHEDULED, run_at, now)


def status_when_due(job: NewJob) -> Status:
    return Status.PENDING if job.limit_key is None else Status.BLOCKED


def wakeup(job: NewJob, status: Status) -> tuple[str, str]:
    """Return the channel and the payload of the notification for a new job."""
    match status:
        case Status.PENDING:
            return channels.PENDING, job.queue
        case Status.BLOCKED:
            return channels.BLOCKED, job.limit_key or ""
    return channels.SCHEDULED, ""


def copy_texts(jobs: Sequence[NewJob], rows: Sequence[Inserted]) -> Iterator[str]:
    """Yield jobs in the text format of COPY, part by part: the server inserts one while the next is made.

    Jobs that differ in nothing but id and arguments share the other texts. To have the driver write each value takes
    several times as long.
    """
    lines: list[str] = []
    shared: Any = ()
    run_at, rest = None, ""
    for job, row in zip(jobs, rows, strict=True):
        if job[SHARED] != shared or row.run_at != run_at:
            shared, run_at = job[SHARED], row.run_at
            last = [*(getattr(job, name) for name in GIVEN[SHARED]), row.enqueued_at, row.run_at, row.status.value]
            rest = "\t".join([_copy_value(value) for value in last])
        lines.append(f"{job.id.hex}\t{_copy_text(job.args)}\t{_copy_text(job.kwargs)}\t{rest}\n")
        if len(lines) == COPY_PART:
            yield "".join(lines)
            lines.clear()
    yield "".join(lines)


_SPECIAL = re.compile(r"[\\\t\n\r]")
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def _copy_text(text: str) -> str:
    if "\\" not in text and text.isprintable():  # a fifth of the time of a search
        return text
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], text)


def _copy_value(value: object) -> str:
    if isinstance(value, str):
        return _copy_text(value)
    if value is None:
        return "\\N"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def insert_sql(given: str) -> str:
    return f"""
    INSERT INTO djqueue_job AS j ({", ".join(GIVEN)}, enqueued_at, run_at, status)
    SELECT {", ".join(f"g.{name}" for name in GIVEN)},
           statement_timestamp() + g.place * interval '1 second', due.run_at,
           {status_at("due.run_at", "g.limit_key")}
    FROM {given},
         LATERAL (SELECT COALESCE(g.run_at, statement_timestamp() + g.delay * interval '1 second')) AS due(run_at)
    """


def taken_sql(tables: Sequence[str]) -> str:
    """Return a query for ids in these tables. A NULL among them means that the snapshot is older than the statement."""
    found = [f"SELECT id FROM {table} WHERE id = ANY(%s::uuid[])" for table in tables]
    return " UNION ALL ".join(
        [*found, "SELECT NULL WHERE current_setting('transaction_isolation') <> 'read committed'"]
    )


def lock_keys_sql(wake: str) -> str:
    """Return a query that locks the jobs that hold the keys, in the order of their ids, as every statement does.

    A key that was released during the wait is left out, by a condition that does not suggest the partial index of all
    keys to the planner.
    """
    return f"""
    WITH keyed AS MATERIALIZED (
        SELECT j.id FROM unnest(%s::text[], %s::text[]) AS k(queue, dedup_key) CROSS JOIN LATERAL (
            SELECT id FROM djqueue_job WHERE queue = k.queue AND dedup_key = k.dedup_key OFFSET 0
        ) j
    ), hit AS MATERIALIZED (
        SELECT {RETURNED_BY_INSERT} FROM djqueue_job j
        WHERE {listed("keyed")} AND num_nulls(dedup_key) = 0
        ORDER BY id FOR UPDATE
    )
    SELECT {RETURNED_BY_INSERT} {wake} FROM hit j
    """


INSERT = insert_sql(given(INSERT_COLUMNS, "g"))
INSERT_ONE = insert_sql(
    f"(VALUES ({', '.join(f'%s::{kind}' for _, kind in INSERT_COLUMNS)})) "
    f"AS g({', '.join(name for name, _ in INSERT_COLUMNS)})"
)
# Writing the key to itself locks the job that holds it until the caller's transaction ends.
LOCK_HIT = "ON CONFLICT (queue, dedup_key) WHERE dedup_key IS NOT NULL DO UPDATE SET dedup_key = EXCLUDED.dedup_key"
# An id that the caller chose may be in use in any of the three tables. A conflict must not raise, because that would
# leave the caller's transaction unusable.
SKIP_TAKEN = "ON CONFLICT DO NOTHING"
# Only an insert detects rows that are newer than the snapshot: it raises a serialization failure. The inserted rows
# are deleted again.
ENTER_HISTORY = f"""
    WITH done AS (
        INSERT INTO djqueue_donejob ({_KEPT}, status, completed_at)
        SELECT {_KEPT}, 'done', statement_timestamp() FROM djqueue_job WHERE id = ANY(%s::uuid[])
        ON CONFLICT (id) DO NOTHING
    )
    INSERT INTO djqueue_deadjob ({_KEPT}) SELECT {_KEPT} FROM djqueue_job WHERE id = ANY(%s::uuid[])
    ON CONFLICT (id) DO NOTHING
"""
LEAVE_HISTORY = """
    WITH done AS (DELETE FROM djqueue_donejob WHERE id = ANY(%s::uuid[]))
    DELETE FROM djqueue_deadjob WHERE id = ANY(%s::uuid[])
"""
KV_OF_NEW = """
    INSERT INTO djqueue_kv (key, value, updated_at)
    SELECT k.key, k.value, statement_timestamp()
    FROM unnest(%s::text[], %s::text[]) AS k(key, value)
    WHERE (SELECT id FROM new) = %s::uuid
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, updated_at = EXCLUDED.updated_at, expires_at = NULL
"""
