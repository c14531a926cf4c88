"""Settle leased jobs: apply the decisions of `lifecycle.outcome` in one statement."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from djqueue.core import channels
from djqueue.core.records import Decision
from djqueue.sql.columns import DONE, KEPT, MAX_ERRORS, postgresql_types
from djqueue.sql.throughput import BUCKETS, COUNTED
from djqueue.states import ENDED, WAITING_AGAIN, Outcome

from .arrays import given_with_constants, listed, locked, newest, upsert

SETTLE_COLUMNS = postgresql_types(Decision)
MOVED = [name for name in KEPT if name not in ("failed_at", "last_error", "errors")]


@cache
def settle_sql(*, reaping: bool, wait: bool, notify: bool, varying: tuple[str, ...]) -> str:
    """Return one statement for all decisions, which finds its rows by primary key and token alone.

    With `AND status = 'claimed'` the planner would walk the partial index of claimed rows with all its dead entries.
    Rows are locked in the order of their ids, so that two settlements, or one and a bulk act, cannot deadlock.
    """
    guard = "AND lease_expires_at <= %s::timestamptz AND NOT (started AND g.returned)" if reaping else ""
    given = ", ".join(f"g.{name}" for name, _ in SETTLE_COLUMNS if name != "outcome")
    # The snapshot still shows what this statement deletes: a row that carries its token and was not held is locked by
    # another transaction.
    skipped = (
        ""
        if wait
        else f"""
        UNION ALL SELECT g.id, g.token, 'locked', 0 {", NULL::void" if notify else ""}
        FROM given g JOIN djqueue_job j ON j.id = g.id AND j.token = g.token
        WHERE {listed("given WHERE id NOT IN (SELECT id FROM held)")}"""
    )
    errors = newest("j.errors", "h.entry", MAX_ERRORS, r"E'\n'")
    failure = {
        "failed_at": "CASE WHEN h.entry <> '' THEN statement_timestamp() ELSE j.failed_at END",
        "last_error": "CASE WHEN h.entry <> '' THEN h.error ELSE j.last_error END",
        "errors": f"CASE WHEN h.entry <> '' THEN {errors} ELSE j.errors END",
    }
    returning, ended = one_of(WAITING_AGAIN), one_of(ENDED)
    wake = f""", CASE
        WHEN {ended} THEN pg_notify('{channels.ENDED}', '')
        WHEN delay > 0 THEN pg_notify('{channels.SCHEDULED}', '')
        WHEN limit_key IS NOT NULL THEN pg_notify('{channels.BLOCKED}', limit_key)
        ELSE pg_notify('{channels.PENDING}', queue) END"""
    moved = ", ".join(MOVED)
    counts = {column: f"count(*) FILTER (WHERE {one_of(outcomes)})" for column, outcomes in COUNTED.items()}
    counted = [outcome for outcomes in COUNTED.values() for outcome in outcomes]
    buckets = f"ARRAY{list(map(float, BUCKETS))}::float8[]"
    return f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM {given_with_constants(SETTLE_COLUMNS, varying, "g")}
    ), held AS MATERIALIZED (
        SELECT {given}, j.queue, j.task, j.attempts, j.limit_key,
               CASE WHEN g.cancellable AND j.cancel_requested THEN 'cancelled' ELSE g.outcome END AS outcome
        FROM {locked("queue, task, attempts, cancel_requested, limit_key", wait=wait, guard=guard)}
    ), returned AS (
        UPDATE djqueue_job j SET
            status = CASE WHEN h.delay > 0 THEN 'scheduled' WHEN h.limit_key IS NULL THEN 'pending' ELSE 'blocked' END,
            run_at = COALESCE(statement_timestamp() + h.delay * interval '1 second', j.run_at),
            token = NULL,
            worker = '',
            claimed_at = NULL,
            lease_expires_at = NULL,
            attempts = j.attempts - (NOT h.spent)::int,
            worker_ids = CASE WHEN h.spent THEN j.worker_ids
                              ELSE left(j.worker_ids, length(j.worker_ids) - length(j.worker) - 1) END,
            started_at = CASE WHEN j.started OR h.spent OR j.attempts <> 1 THEN j.started_at END,
            started = false,
            returns = j.returns + h.returned::int,
            crashes = CASE WHEN h.forgiven THEN 0 ELSE j.crashes + h.crashed::int END,
            unknown_since = CASE WHEN h.unknown THEN COALESCE(j.unknown_since, statement_timestamp())
                                 WHEN NOT h.known THEN j.unknown_since END,
            {", ".join(f"{name} = {change}" for name, change in failure.items())}
        FROM held h
        WHERE j.id = h.id AND {listed(f"held WHERE {returning}")}
    ), gone AS (
        DELETE FROM djqueue_job j USING held h
        WHERE j.id = h.id AND {listed(f"held WHERE {ended}")}
        RETURNING {", ".join(f"j.{name}" for name in MOVED)},
            {", ".join(f"{change} AS {name}" for name, change in failure.items())},
            h.outcome, h.keep_done, h.result
    ), kept AS (
        INSERT INTO djqueue_donejob ({moved}, failed_at, last_error, errors, status, completed_at, result)
        SELECT {moved}, failed_at, last_error, errors, outcome, statement_timestamp(), result
        FROM gone WHERE outcome <> 'dead' AND keep_done
        ON CONFLICT (id) DO UPDATE SET {upsert(DONE)}
    ), buried AS (
        INSERT INTO djqueue_deadjob ({moved}, failed_at, last_error, errors)
        SELECT {moved}, failed_at, last_error, errors FROM gone WHERE outcome = 'dead'
        ON CONFLICT (id) DO UPDATE SET {upsert(KEPT)}
    ), counted AS (
        INSERT INTO djqueue_throughput
            (minute, queue, task, wait_bucket, run_bucket, wait_sum, run_sum, {", ".join(counts)})
        SELECT date_trunc('minute', statement_timestamp()), queue, task,
               width_bucket(wait, {buckets}), width_bucket(run, {buckets}), sum(wait), sum(run),
               {", ".join(counts.values())}
        FROM held WHERE {one_of(counted)}
        GROUP BY 2, 3, 4, 5
    )
    SELECT id, token, outcome, attempts {wake if notify else ""} FROM held {skipped}
    """


@cache
def ack_sql(*, keep_done: bool, results: bool, notify: bool) -> str:
    """Return a statement that acknowledges all of the given jobs or none: most settlements are such groups.

    It does a part of what settle_sql() does, in half of the time (`python -m benchmarks.settle`): the rows of a claim
    share its token, so they need not be joined to what is given, and the counts come ready. If a row is locked, or no
    longer carries its token, nothing is changed, and settle_sql() finds out which it was. No lock is waited for. If the
    history has a job with one of the ids, which takes a row written by hand, it raises IntegrityError: to be prepared
    for that would take a quarter of the time.

    The ids are in order, those of each claim side by side: `claim` names the token, and the first and the last of its
    ids. Results are found by the place of the id among all ids in order.
    """
    kept = ", ".join(KEPT)
    result = "(%s::text[])[row_number() OVER (ORDER BY id)]" if results else "NULL"
    wake = f", pg_notify('{channels.ENDED}', '')" if notify else ""
    keep = f"""kept AS (
        INSERT INTO djqueue_donejob ({kept}, status, completed_at, result)
        SELECT {kept}, 'done', statement_timestamp(), {result} FROM gone
    ), """
    return f"""
    WITH held AS MATERIALIZED (
        SELECT j.id FROM unnest(%s::uuid[], %s::int4[], %s::int4[]) AS claim(token, first, last) CROSS JOIN LATERAL (
            SELECT id FROM djqueue_job
            WHERE id = ANY((%s::uuid[])[claim.first:claim.last]) AND token = claim.token
            FOR UPDATE SKIP LOCKED
        ) j
    ), gone AS (
        DELETE FROM djqueue_job j WHERE {listed("held WHERE (SELECT count(*) FROM held) = %s::int8")}
        RETURNING {", ".join(f"j.{name}" for name in KEPT)}
    ), {keep if keep_done else ""}counted AS (
        INSERT INTO djqueue_throughput (minute, queue, task, wait_bucket, run_bucket, done, wait_sum, run_sum)
        SELECT date_trunc('minute', statement_timestamp()), c.*
        FROM unnest(%s::text[], %s::text[], %s::int2[], %s::int2[], %s::int8[], %s::float8[], %s::float8[]) AS c
        WHERE EXISTS (SELECT FROM gone)
    )
    SELECT count(*) {wake} FROM gone
    """


def one_of(outcomes: Iterable[Outcome]) -> str:
    values = ", ".join(f"'{outcome.value}'" for outcome in dict.fromkeys(outcomes))
    return f"outcome IN ({values})"
