"""PostgreSQL: every transition is one statement.

`statement_timestamp()` is the clock: `now()` stands still inside a transaction, and `clock_timestamp()` cannot be an
index condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
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

from .base import (
    BUCKETS,
    CLAIMED,
    KEPT,
    MAX_ERRORS,
    MAX_RETURNS,
    NOT_IN_JOB,
    RECORD_COLUMNS,
    RETURNED_BY_INSERT,
    REVIVED,
    Statements,
)

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
            found = self.own(lambda: self._insert(jobs, kv, _LOCK_HIT if keyed else ""))
        return [found[job.id] for job in jobs]

    def _copy(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Jobs that can meet no conflict: several times faster than arrays, for two further round trips."""
        now = self.now()
        inserted = []
        wakeups = set()
        with self.connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            for job in jobs:
                run_at = job.run_at or now + timedelta(seconds=job.delay)
                status = Status.PENDING if run_at <= now else Status.SCHEDULED
                copy.write_row([*(getattr(job, name) for name in _COPIED), now, run_at, status.value])
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
            insert, params = _INSERT_ONE, [getattr(jobs[0], name) for name, _ in _INSERT_COLUMNS]
        else:
            insert, params = _INSERT, [[getattr(job, name) for job in jobs] for name, _ in _INSERT_COLUMNS]
        sql = f"{insert} {conflict} RETURNING {RETURNED_BY_INSERT} {_WAKE_FOR_NEW if self.notify else ''}"
        if kv:
            # Only a created job brings its kv along.
            sql = f"WITH new AS ({sql}), written AS ({_KV_OF_NEW}) SELECT * FROM new"
            params += [list(kv), list(kv.values()), jobs[0].id]
        return self.inserted(jobs, self.fetch(sql, params))

    def _insert_own_ids(self, jobs: Sequence[NewJob], kv: Mapping[str, str]) -> dict[UUID, Inserted]:
        found = self._insert(jobs, kv, _SKIP_TAKEN)
        while missing := [job for job in jobs if job.id not in found]:
            keyed = [job for job in missing if job.dedup_key is not None]
            hits = self.inserted(
                keyed, self.fetch(_LOCK_KEYS, [[j.queue for j in keyed], [j.dedup_key for j in keyed]])
            )
            taken = self._taken([job.id for job in missing if job.id not in hits])
            if taken:
                self.discard([done.id for done in found.values() if done.created])
                raise DuplicateJob(taken[0])
            # A key that was released meanwhile leaves its job to be inserted in another turn.
            found |= hits
            found |= self._insert([job for job in missing if job.id not in hits], kv, _SKIP_TAKEN)
        return found

    def _taken(self, ids: Sequence[UUID]) -> list[UUID]:
        return [row[0] for row in self.fetch(_TAKEN, [list(ids)] * 3)]

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
        rows = self.own(lambda: self.fetch(_CLAIM, params))
        found = [ClaimedRow(*row) for row in rows]
        # UPDATE … RETURNING gives them in the order of the join.
        found.sort(key=lambda row: (row.priority, row.enqueued_at, row.id))
        return found

    def settle(self, settlements: Sequence[Settlement], *, reaping: bool = False) -> list[Settled]:
        arrays = [[getattr(item, name) for item in settlements] for name, _ in _SETTLE_COLUMNS]
        sql = _settle_sql(reaping=reaping, notify=self.notify)
        rows = self.own(lambda: self.fetch(sql, arrays))
        found: dict[UUID, Settled] = {row[0]: Settled(Outcome(row[1]), row[2]) for row in rows}
        return [found.get(item.id, Settled(Outcome.LOST)) for item in settlements]

    def renew(self, renewals: Sequence[Renew], *, wait: bool) -> list[Renewal | None]:
        arrays = [[getattr(item, name) for item in renewals] for name, _ in _RENEW_COLUMNS]
        rows = self.own(lambda: self.fetch(_RENEW if wait else _RENEW_SKIPPING, arrays))
        found = {row[0]: Renewal(*row[1:]) if row[1] else None for row in rows}
        return [found.get(item.id, Renewal(None)) for item in renewals]

    def cancel(self, ids: Sequence[UUID], keep: bool, otherwise: Sequence[str]) -> list[CancelledJob]:
        rows = self.own(lambda: self.fetch(_cancel_sql(self.notify), [list(ids), list(otherwise), keep]))
        return [
            CancelledJob(row[0], CancelOutcome.REMOVED, self.record(row[2 : 2 + len(RECORD_COLUMNS)]))
            if row[1]
            else CancelledJob(row[0], CancelOutcome.REQUESTED)
            for row in rows
        ]

    def requeue(self, requeues: Sequence[Requeue]) -> list[JobRecord]:
        arrays = [[getattr(item, name) for item in requeues] for name, _ in _REQUEUE_COLUMNS]
        rows = self.own(lambda: self.fetch(f"{_REQUEUE} {_WAKE_FOR_NEW if self.notify else ''}", arrays))
        return [self.record(row[: len(RECORD_COLUMNS)]) for row in rows]

    def reschedule(self, ids: Sequence[UUID], run_at: datetime | None, priority: int | None) -> list[UUID]:
        sql = f"{_RESCHEDULE} {_WAKE_FOR_WAITING if self.notify else ''}"
        return [row[0] for row in self.own(lambda: self.fetch(sql, [list(ids), priority, run_at, run_at]))]

    def wake(self, queue: str) -> None:
        if self.notify:
            self.fetch("SELECT pg_notify(%s, %s)", [channels.PENDING, queue])

    def promote(self, limit: int) -> list[str]:
        sql = f"{_PROMOTE} RETURNING j.queue {_WAKE_FOR_PENDING if self.notify else ''}"
        return [row[0] for row in self.own(lambda: self.fetch(sql, [limit]))]


def _given(columns: Sequence[tuple[str, str]], name: str) -> str:
    """Rows from one array per column, so that the statement's text does not depend on their number."""
    arrays = ", ".join(f"%s::{kind}[]" for _, kind in columns)
    return f"unnest({arrays}) AS {name}({', '.join(column for column, _ in columns)})"


_INSERT_COLUMNS = [
    ("id", "uuid"),
    ("task", "text"),
    ("queue", "text"),
    ("priority", "int4"),
    ("args", "text"),
    ("kwargs", "text"),
    ("headers", "text"),
    ("max_attempts", "int4"),
    ("delay", "float8"),
    ("run_at", "timestamptz"),
    ("dedup_key", "text"),
    ("dedup_until", "text"),
    ("retry", "text"),
    ("timeout", "float8"),
    ("lease", "float8"),
    ("schedule", "text"),
    ("slot", "timestamptz"),
]
_COPIED = (
    "id task queue priority args kwargs headers max_attempts dedup_key dedup_until retry timeout lease schedule slot"
).split()

_COPY = f"COPY djqueue_job ({', '.join(_COPIED)}, enqueued_at, run_at, status) FROM STDIN"


def _insert_sql(given: str) -> str:
    return f"""
    INSERT INTO djqueue_job AS j ({", ".join(_COPIED)}, enqueued_at, run_at, status)
    SELECT {", ".join(f"g.{name}" for name in _COPIED)}, statement_timestamp(), due.run_at,
           CASE WHEN due.run_at <= statement_timestamp() THEN 'pending' ELSE 'scheduled' END
    FROM {given},
         LATERAL (SELECT COALESCE(g.run_at, statement_timestamp() + g.delay * interval '1 second')) AS due(run_at)
    """


_INSERT = _insert_sql(_given(_INSERT_COLUMNS, "g"))
_INSERT_ONE = _insert_sql(
    f"(VALUES ({', '.join(f'%s::{kind}' for _, kind in _INSERT_COLUMNS)})) "
    f"AS g({', '.join(name for name, _ in _INSERT_COLUMNS)})"
)
# Notifications belong to the statement that makes them true, and come with its commit or not at all. They stand in what
# it returns: a CTE that nothing refers to would not run.
_WAKE_FOR_PENDING = f", pg_notify('{channels.PENDING}', j.queue)"
_WAKE_FOR_WAITING = f""", CASE j.status
    WHEN 'pending' THEN pg_notify('{channels.PENDING}', j.queue) ELSE pg_notify('{channels.SCHEDULED}', '') END"""
# A dedup hit is no news: only an updated row has an xmax.
_WAKE_FOR_NEW = (
    _WAKE_FOR_WAITING.replace("CASE j.status", "CASE WHEN j.xmax <> 0 THEN NULL ELSE CASE j.status") + " END"
)

# Writing the key to itself locks the job that holds it until the caller's transaction ends.
_LOCK_HIT = "ON CONFLICT (queue, dedup_key) WHERE dedup_key IS NOT NULL DO UPDATE SET dedup_key = EXCLUDED.dedup_key"
_LOCK_KEYS = f"""
    SELECT {RETURNED_BY_INSERT} FROM djqueue_job
    WHERE (queue, dedup_key) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
    ORDER BY id FOR UPDATE
"""
# An id that its caller chose may be taken, in any of the three tables; a conflict must not raise, for that would
# leave the caller's transaction unusable.
_SKIP_TAKEN = """
    WHERE NOT EXISTS (SELECT FROM djqueue_donejob d WHERE d.id = g.id)
      AND NOT EXISTS (SELECT FROM djqueue_deadjob d WHERE d.id = g.id)
    ON CONFLICT DO NOTHING
"""
_TAKEN = " UNION ALL ".join(
    f"SELECT id FROM {table} WHERE id = ANY(%s::uuid[])"
    for table in ("djqueue_job", "djqueue_donejob", "djqueue_deadjob")
)
_KV_OF_NEW = """
    INSERT INTO djqueue_kv (key, value, updated_at)
    SELECT k.key, k.value, statement_timestamp()
    FROM unnest(%s::text[], %s::text[]) AS k(key, value)
    WHERE (SELECT id FROM new) = %s::uuid
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, updated_at = EXCLUDED.updated_at, expires_at = NULL
"""

# One branch per unpaused queue, each a walk along djqueue_job_claim that ends at its limit. MATERIALIZED, because a
# bare subquery with LIMIT may be scanned again and then locks and gives more than it should. `asked` is materialized
# so that a paused queue is left out before its branch runs.
_CLAIM = f"""
    WITH asked AS MATERIALIZED (
        SELECT w.queue, w.n, w.lease
        FROM unnest(%s::text[], %s::int4[], %s::float8[]) AS w(queue, n, lease)
        WHERE NOT EXISTS (SELECT FROM djqueue_queuestate s WHERE s.queue = w.queue AND s.paused)
    ), picked AS MATERIALIZED (
        SELECT j.id, a.lease
        FROM asked a CROSS JOIN LATERAL (
            SELECT id, priority, enqueued_at FROM djqueue_job
            WHERE status = 'pending' AND queue = a.queue
            ORDER BY priority, enqueued_at, id
            LIMIT a.n
            FOR UPDATE SKIP LOCKED
        ) j
        ORDER BY j.priority, j.enqueued_at, j.id
        LIMIT %s
    )
    UPDATE djqueue_job j SET
        status = 'claimed',
        token = %s::uuid,
        worker = %s::text,
        worker_ids = j.worker_ids || %s::text || ',',
        started = %s::bool,
        attempts = j.attempts + 1,
        claimed_at = statement_timestamp(),
        last_attempted_at = statement_timestamp(),
        started_at = COALESCE(j.started_at, statement_timestamp()),
        lease_expires_at = statement_timestamp() + interval '1 second' * COALESCE(
            %s::float8,
            j.lease,
            (SELECT t.lease FROM unnest(%s::text[], %s::float8[]) AS t(task, lease) WHERE t.task = j.task),
            picked.lease),
        progress = NULL,
        dedup_key = CASE WHEN j.dedup_until = 'done' THEN j.dedup_key END
    FROM picked
    WHERE j.id = picked.id
    RETURNING {", ".join(f"j.{name}" for name in CLAIMED)}
"""

_SETTLE_COLUMNS = [
    ("id", "uuid"),
    ("token", "uuid"),
    ("verdict", "text"),
    ("keep_done", "bool"),
    ("result", "text"),
    ("error", "text"),
    ("entry", "text"),
    ("delay", "float8"),
    ("final", "bool"),
    ("crashed", "bool"),
    ("unknown", "bool"),
    ("wait", "float8"),
    ("run", "float8"),
]
_MOVED = [name for name in KEPT if name not in ("failed_at", "last_error", "errors")]


def _upsert(columns: Sequence[str]) -> str:
    return ", ".join(f"{name} = EXCLUDED.{name}" for name in columns if name != "id")


@cache
def _settle_sql(*, reaping: bool, notify: bool) -> str:
    """All verdicts in one statement, found by primary key and token alone.

    With `AND status = 'claimed'` the planner would walk the partial index of claimed rows with all its dead entries.
    Rows are locked in the order of their ids, so that two settlements, or one and a bulk act, cannot deadlock.
    """
    guard = "AND j.lease_expires_at <= statement_timestamp()" if reaping else ""
    lock = "FOR UPDATE OF j SKIP LOCKED" if reaping else "FOR UPDATE OF j"
    wake = f""", CASE
        WHEN outcome IN ('done', 'dead', 'cancelled') THEN pg_notify('{channels.ENDED}', '')
        WHEN delay > 0 THEN pg_notify('{channels.SCHEDULED}', '')
        ELSE pg_notify('{channels.PENDING}', queue) END"""
    errors = f"""(CASE WHEN length(j.errors) > {MAX_ERRORS}
                       THEN substr(j.errors, strpos(j.errors, E'\\n') + 1) ELSE j.errors END || h.entry)"""
    failure = f"""
        CASE WHEN h.entry <> '' THEN statement_timestamp() ELSE j.failed_at END AS failed_at,
        CASE WHEN h.entry <> '' THEN h.error ELSE j.last_error END AS last_error,
        CASE WHEN h.entry <> '' THEN {errors} ELSE j.errors END AS errors"""
    moved = ", ".join(_MOVED)
    done_columns = [*KEPT, "status", "completed_at", "result"]
    return f"""
    WITH held AS MATERIALIZED (
        SELECT g.*, j.queue, j.task, j.attempts,
            CASE g.verdict
                WHEN 'ack' THEN 'done'
                WHEN 'cancel' THEN 'cancelled'
                WHEN 'dead_letter' THEN 'dead'
                WHEN 'snooze' THEN 'snoozed'
                WHEN 'release' THEN 'released'
                WHEN 'reap' THEN
                    CASE WHEN NOT j.started AND j.returns < {MAX_RETURNS} THEN 'released'
                         WHEN j.attempts >= j.max_attempts THEN 'dead' ELSE 'retrying' END
                ELSE
                    CASE WHEN j.cancel_requested THEN 'cancelled'
                         WHEN g.final OR j.attempts >= j.max_attempts THEN 'dead' ELSE 'retrying' END
            END AS outcome
        FROM {_given(_SETTLE_COLUMNS, "g")}
        JOIN djqueue_job j ON j.id = g.id AND j.token = g.token {guard}
        ORDER BY j.id
        {lock}
    ), returned AS (
        UPDATE djqueue_job j SET
            status = CASE WHEN h.delay > 0 THEN 'scheduled' ELSE 'pending' END,
            run_at = CASE WHEN h.outcome = 'released' THEN j.run_at
                          ELSE statement_timestamp() + h.delay * interval '1 second' END,
            token = NULL,
            worker = '',
            claimed_at = NULL,
            lease_expires_at = NULL,
            attempts = j.attempts - (h.outcome <> 'retrying')::int,
            worker_ids = CASE WHEN h.outcome = 'retrying' THEN j.worker_ids
                              ELSE left(j.worker_ids, length(j.worker_ids) - length(j.worker) - 1) END,
            started_at = CASE WHEN NOT j.started AND h.outcome <> 'retrying' AND j.attempts = 1
                              THEN NULL ELSE j.started_at END,
            started = false,
            returns = j.returns + (h.verdict = 'reap' AND h.outcome = 'released')::int,
            crashes = j.crashes + h.crashed::int,
            unknown_since = CASE WHEN h.unknown THEN COALESCE(j.unknown_since, statement_timestamp()) END,
            failed_at = CASE WHEN h.outcome = 'retrying' THEN statement_timestamp() ELSE j.failed_at END,
            last_error = CASE WHEN h.outcome = 'retrying' THEN h.error ELSE j.last_error END,
            errors = CASE WHEN h.outcome = 'retrying' THEN {errors} ELSE j.errors END
        FROM held h
        WHERE j.id = h.id AND h.outcome IN ('retrying', 'snoozed', 'released')
    ), gone AS (
        DELETE FROM djqueue_job j USING held h
        WHERE j.id = h.id AND h.outcome IN ('done', 'dead', 'cancelled')
        RETURNING {", ".join(f"j.{name}" for name in _MOVED)}, {failure}, h.outcome, h.keep_done, h.result
    ), kept AS (
        INSERT INTO djqueue_donejob ({moved}, failed_at, last_error, errors, status, completed_at, result)
        SELECT {moved}, failed_at, last_error, errors, outcome, statement_timestamp(), result
        FROM gone WHERE outcome <> 'dead' AND keep_done
        ON CONFLICT (id) DO UPDATE SET {_upsert(done_columns)}
    ), buried AS (
        INSERT INTO djqueue_deadjob ({moved}, failed_at, last_error, errors)
        SELECT {moved}, failed_at, last_error, errors FROM gone WHERE outcome = 'dead'
        ON CONFLICT (id) DO UPDATE SET {_upsert(KEPT)}
    ), counted AS (
        INSERT INTO djqueue_throughput
            (minute, queue, task, wait_bucket, run_bucket, done, failed, dead, cancelled, wait_sum, run_sum)
        SELECT date_trunc('minute', statement_timestamp()), queue, task,
               width_bucket(wait, ARRAY{list(map(float, BUCKETS))}::float8[]),
               width_bucket(run, ARRAY{list(map(float, BUCKETS))}::float8[]),
               count(*) FILTER (WHERE outcome = 'done'),
               count(*) FILTER (WHERE entry <> '' AND outcome <> 'cancelled'),
               count(*) FILTER (WHERE outcome = 'dead'),
               count(*) FILTER (WHERE outcome = 'cancelled'),
               sum(wait), sum(run)
        FROM held WHERE outcome NOT IN ('snoozed', 'released')
        GROUP BY 2, 3, 4, 5
    )
    SELECT id, outcome, attempts {wake if notify else ""} FROM held
    """


_RENEW_COLUMNS = [
    ("id", "uuid"),
    ("token", "uuid"),
    ("lease", "float8"),
    ("started", "bool"),
    ("progress", "text"),
]


def _renew_sql(lock: str, answer: str) -> str:
    """Touches no indexed column, so that the new version of the row stays on its page."""
    return f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM {_given(_RENEW_COLUMNS, "g")}
    ), held AS MATERIALIZED (
        SELECT g.* FROM given g JOIN djqueue_job j ON j.id = g.id AND j.token = g.token
        ORDER BY g.id
        FOR UPDATE OF j {lock}
    ), renewed AS (
        UPDATE djqueue_job j SET
            lease_expires_at = COALESCE(statement_timestamp() + h.lease * interval '1 second', j.lease_expires_at),
            started = COALESCE(h.started, j.started),
            progress = COALESCE(h.progress, j.progress)
        FROM held h WHERE j.id = h.id
        RETURNING j.id, j.lease_expires_at, j.cancel_requested
    )
    SELECT id, r.lease_expires_at, r.cancel_requested FROM {answer}
    """


_RENEW = _renew_sql("", "renewed r")
# A row that is ours, but that somebody has locked just now, comes back without an expiry.
_RENEW_SKIPPING = _renew_sql(
    "SKIP LOCKED",
    """(SELECT j.id FROM given g JOIN djqueue_job j ON j.id = g.id AND j.token = g.token) AS ours
        LEFT JOIN renewed r USING (id)""",
)

_PROMOTE = """
    WITH due AS MATERIALIZED (
        SELECT id FROM djqueue_job
        WHERE status = 'scheduled' AND run_at <= statement_timestamp()
        ORDER BY run_at, id
        LIMIT %s
        FOR UPDATE SKIP LOCKED
    )
    UPDATE djqueue_job j SET status = 'pending' FROM due WHERE j.id = due.id
"""


@cache
def _cancel_sql(notify: bool) -> str:
    """The row is locked before its state is looked at: a claim that is being committed is waited for."""
    kept = ", ".join(KEPT)
    absent = {"status": "'cancelled'", "lease_expires_at": "NULL", "completed_at": "statement_timestamp()"}
    record = ", ".join(absent.get(name, "NULL" if name == "result" else f"g.{name}") for name in RECORD_COLUMNS)
    wake = f", CASE WHEN g.id IS NOT NULL THEN pg_notify('{channels.ENDED}', '') END"
    return f"""
    WITH locked AS MATERIALIZED (
        SELECT id, status FROM djqueue_job WHERE id = ANY(%s::uuid[]) ORDER BY id FOR UPDATE
    ), asked AS (
        UPDATE djqueue_job j SET cancel_requested = true FROM locked l WHERE j.id = l.id AND l.status = 'claimed'
    ), gone AS (
        DELETE FROM djqueue_job j USING locked l WHERE j.id = l.id AND l.status <> 'claimed'
        RETURNING {", ".join(f"j.{name}" for name in KEPT)}
    ), kept AS (
        INSERT INTO djqueue_donejob ({kept}, status, completed_at)
        SELECT {kept}, 'cancelled', statement_timestamp() FROM gone WHERE (queue = ANY(%s::text[])) <> %s::bool
        ON CONFLICT (id) DO UPDATE SET {_upsert([*KEPT, "status", "completed_at"])}, result = NULL
    ), counted AS (
        INSERT INTO djqueue_throughput (minute, queue, task, wait_bucket, run_bucket, cancelled)
        SELECT date_trunc('minute', statement_timestamp()), queue, task, 0, 0, count(*) FROM gone GROUP BY queue, task
    )
    SELECT l.id, g.id IS NOT NULL, {record} {wake if notify else ""} FROM locked l LEFT JOIN gone g ON g.id = l.id
    """


_REQUEUE_COLUMNS = [("id", "uuid"), ("args", "text"), ("kwargs", "text"), ("run_at", "timestamptz")]

# What it returns is a record of the new row; each line of its errors is marked, once.
_REQUEUE = f"""
    WITH gone AS (
        DELETE FROM djqueue_deadjob d USING {_given(_REQUEUE_COLUMNS, "g")}
        WHERE d.id = g.id AND NOT EXISTS (SELECT FROM djqueue_job j WHERE j.id = d.id)
        RETURNING {", ".join(f"d.{name}" for name in REVIVED)},
            COALESCE(g.args, d.args) AS args,
            COALESCE(g.kwargs, d.kwargs) AS kwargs,
            regexp_replace(d.errors, '^\\{{(?!"before_requeue")', '{{"before_requeue":true,', 'gn') AS errors,
            COALESCE(g.run_at, statement_timestamp()) AS run_at
    )
    INSERT INTO djqueue_job AS j ({", ".join(REVIVED)}, args, kwargs, errors, run_at, status)
    SELECT {", ".join(REVIVED)}, args, kwargs, errors, run_at,
           CASE WHEN run_at <= statement_timestamp() THEN 'pending' ELSE 'scheduled' END
    FROM gone
    RETURNING {", ".join(NOT_IN_JOB.get(name, f"j.{name}") for name in RECORD_COLUMNS)}
"""

_RESCHEDULE = """
    WITH locked AS MATERIALIZED (
        SELECT id FROM djqueue_job WHERE id = ANY(%s::uuid[]) AND status <> 'claimed' ORDER BY id FOR UPDATE
    )
    UPDATE djqueue_job j SET
        priority = COALESCE(%s::int4, j.priority),
        run_at = COALESCE(%s::timestamptz, j.run_at),
        status = CASE WHEN COALESCE(%s::timestamptz, j.run_at) <= statement_timestamp()
                      THEN 'pending' ELSE 'scheduled' END
    FROM locked l WHERE j.id = l.id
    RETURNING j.id
"""
