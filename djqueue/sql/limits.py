"""The rows of limit keys, and what the jobs of a key hold and wait for; the same on every database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from djqueue.core.limits import Numbers
from djqueue.core.records import LimitRow

from .contract import Statements

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from djqueue.models import Job

# A scalar subquery, which the planner evaluates for the few rows that are read, not for all.
UNPAUSED = "(SELECT s.paused FROM djqueue_queuestate s WHERE s.queue = j.queue) IS NOT TRUE"

PENDING = "status = 'pending'"
ADMITTED = "status IN ('pending', 'claimed')"  # the jobs that hold permits

_OWN = "l.concurrency, l.rate, l.burst, l.spent_until, l.held_until"


def read(database: Statements, keys: Sequence[str], *, counted: bool = True) -> list[LimitRow]:
    """Return what is known of each key, the job that is next, and how many jobs hold a permit.

    Without `counted`, that number is 0, and priorities are not read.
    """
    head = f"""FROM djqueue_job j
        WHERE j.status = 'blocked' AND j.limit_key = v.limit_key {database.walk_sql} AND {UNPAUSED}
        ORDER BY j.priority, j.enqueued_at, j.id LIMIT 1"""
    holders = "FROM djqueue_job WHERE limit_key = v.limit_key AND"
    counts = [f"(SELECT COUNT(*) {holders} {condition})" for condition in (ADMITTED, PENDING)]
    counts += [f"(SELECT j.priority {head})", f"(SELECT MAX(priority) {holders} {PENDING})"]
    now = database.text_sql(database.now_sql())
    rows = database.fetch(
        f"""
        WITH v(limit_key) AS ({database.given_keys_sql(len(keys))})
        SELECT v.limit_key, {_OWN}, {now}, (SELECT j.task {head}), {", ".join(counts) if counted else 0}
        FROM v LEFT JOIN djqueue_limitkey l ON l.limit_key = v.limit_key
        """,
        database.given_keys(keys),
    )
    return [_row(database, row) for row in rows]


def jobs_of(database: Statements, key: str) -> QuerySet[Job]:
    """Return the live jobs of a key."""
    from djqueue.models import Job

    return Job.objects.using(database.alias).filter(limit_key=key)


def unpaused(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Return those of the jobs whose queues are not paused."""
    from djqueue.models import QueueState

    return jobs.exclude(queue__in=QueueState.objects.using(jobs.db).filter(paused=True).values("queue"))


def locked_elsewhere(database: Statements, keys: Sequence[str]) -> tuple[set[str], set[str]]:
    """Lock the rows of keys that no other transaction has locked. Return the other keys, and those without a row."""
    from djqueue.models import LimitKey

    rows = LimitKey.objects.using(database.alias).filter(key__in=keys).order_by("key").values_list("key", flat=True)
    there = set(rows)
    return there - set(rows.select_for_update(skip_locked=True)), set(keys) - there


def lock(database: Statements, keys: Sequence[str], *, patiently: bool = True) -> list[LimitRow]:
    """Lock keys in order, until the transaction ends, and return what is known of them, without their jobs.

    Unless it waits patiently, raise LockTimeout if another transaction keeps the lock: not that of an admission, which
    takes milliseconds, but one that was left open. It must not hold up the jobs of other keys.

    Permits must be counted by a later statement, which sees what was committed while this one waited. The rows are
    written, not only locked: on PostgreSQL, a transaction with an older snapshot then fails instead of counting in it.
    """
    rows = database.given_keys_sql(len(keys), f", {database.now_sql()}")
    found = (database.fetch if patiently else database.fetch_soon)(
        f"INSERT INTO djqueue_limitkey (limit_key, admitted_at) {rows} "
        f"{database.upsert_sql('(limit_key)', ['admitted_at'])} "
        f"RETURNING limit_key, concurrency, rate, burst, spent_until, held_until, {database.text_sql('admitted_at')}",
        database.given_keys(sorted(keys)),
    )
    return [_row(database, [*row, None, 0]) for row in found]


def _row(database: Statements, row: Sequence[Any]) -> LimitRow:
    key, concurrency, rate, burst, spent_until, held_until, now, *jobs = row
    instant = database.instant
    return LimitRow(
        key, _numbers(concurrency, rate, burst), instant(spent_until), instant(held_until), instant(now), *jobs
    )


@lru_cache
def _numbers(*given: Any) -> Numbers:
    """Return the numbers of a row; those that make no sense were written by hand."""
    return Numbers(*(number if number is not None and number > 0 else None for number in given))


def spend(database: Statements, spent: dict[str, datetime]) -> None:
    """Write until when the rates of locked keys are used up."""
    for key, until in sorted(spent.items()):
        sql = "UPDATE djqueue_limitkey SET spent_until = %s WHERE limit_key = %s"
        database.execute(sql, [database.adapt(until), key])


def blocked_keys(database: Statements, after: str, limit: int) -> list[str]:
    """Return the next keys of blocked jobs in their order, hopping along djqueue_job_blocked."""
    return [row[0] for row in database.fetch(database.blocked_keys_sql(), [after, limit])]
