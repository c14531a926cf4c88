"""Limit keys as they are now: their numbers, the jobs that hold their permits, and those that wait for one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from djqueue.core.limits import Numbers
from djqueue.core.records import LimitRow, Mark
from djqueue.lifecycle.allowance import EXACT, numbers_of, used_for
from djqueue.models import Job, LimitKey
from djqueue.sql import Statements, statements
from djqueue.sql.ahead import RANGES
from djqueue.sql.limits import UNPAUSED, blocked_keys

# Jobs of a key are counted up to here; one more stands for any larger number.
MOST_COUNTED = 1000
# Keys of blocked jobs that are looked for in the table of limit keys.
FIRST_KEYS = 200
# As in the condition of djqueue_job_permit: SQLite compares the texts.
PERMIT = "limit_key = %s AND status IN ('pending', 'claimed')"
LINE = "limit_key = %s AND status = 'blocked'"
PLACE = "priority, enqueued_at, id"
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

SHOWN = "id, task, queue, status, priority, attempts, max_attempts, started, enqueued_at, claimed_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSummary:
    """A limit key, and the number of jobs that hold a permit or wait for one."""

    key: str
    task: str | None  # whose numbers these are: of the next job, or of one that holds a permit
    numbers: Numbers | None  # None if they are not known in this process
    override: Numbers  # set at run time, in place of the task's
    admitted: int  # pending or claimed
    claimed: int
    blocked: int
    held_until: datetime | None  # None if it is not held now
    rate_left: int | None  # how many jobs the rate allows now; None without a rate
    now: datetime

    @property
    def is_set(self) -> bool:
        return self.override != Numbers()


def summaries(keys: Sequence[str], most: int | None = None) -> list[LimitSummary]:
    """Return the summaries of these keys, in this order. Two statements; jobs are counted up to `most` + 1 each."""
    if not keys:
        return []
    database = statements()
    own = {row.pk: row for row in LimitKey.objects.using(database.alias).filter(pk__in=keys)}
    table = _jobs(database)
    limit = "" if most is None else f" LIMIT {most + 1}"
    counts = [
        f"(SELECT COUNT(*) FROM (SELECT id FROM {table} WHERE {condition}{limit}) {name})"
        for name, condition in (
            ("admitted", PERMIT),
            ("claimed", f"{PERMIT} AND status = 'claimed'"),
            ("blocked", LINE),
        )
    ]
    tasks = [
        f"(SELECT task FROM {table} WHERE {LINE} ORDER BY {PLACE} LIMIT 1)",
        f"(SELECT task FROM {table} WHERE {PERMIT} LIMIT 1)",
    ]
    columns = ", ".join([database.now_sql(), *counts, *tasks])
    sql = " UNION ALL ".join(f"SELECT {number}, {columns}" for number in range(len(keys)))
    rows = database.fetch(sql, [key for key in keys for _ in (*counts, *tasks)])
    found = {}
    for number, now, admitted, claimed, blocked, waits, holds in rows:
        key = keys[number]
        row = row_of(key, own.get(key), database.instant(now), waits or holds)
        found[key] = _summary(row, int(admitted), int(claimed), int(blocked))
    return [found[key] for key in keys]


def summary(key: str, most: int | None = None) -> LimitSummary:
    """Return the summary of a key."""
    [found] = summaries([key], most)
    return found


def read_row(database: Statements, key: str, now: datetime, task: str) -> LimitRow:
    """Return what is stored of a key, for a job of a task."""
    return row_of(key, LimitKey.objects.using(database.alias).filter(pk=key).first(), now, task)


def row_of(key: str, own: LimitKey | None, now: datetime, task: str | None) -> LimitRow:
    own = own or LimitKey(key=key)
    override = Numbers(own.concurrency, own.rate, own.burst)
    return LimitRow(
        key=key,
        override=override,
        spent_until=own.spent_until,
        held_until=own.held_until,
        now=now,
        task=task,
        admitted=0,  # those who need the number count up to a limit
    )


def _summary(row: LimitRow, admitted: int, claimed: int, blocked: int) -> LimitSummary:
    numbers = row.override if row.task is None else numbers_of(row, row.task)
    return LimitSummary(
        key=row.key,
        task=row.task,
        numbers=numbers,
        override=row.override,
        admitted=admitted,
        claimed=claimed,
        blocked=blocked,
        held_until=held_until(row),
        rate_left=rate_left(row, numbers, admitted - claimed),
        now=row.now,
    )


# The numbers


def held_until(row: LimitRow) -> datetime | None:
    """Return until when the key is held; None if it is not."""
    return row.held_until if row.held_until is not None and row.held_until > row.now else None


def rate_left(row: LimitRow, numbers: Numbers | None, pending: int) -> int | None:
    """Return how many jobs the rate allows now, beside those that are admitted and not claimed; None without a rate."""
    if numbers is None or numbers.rate is None:
        return None
    burst = numbers.burst or 1
    return max(0, min(burst - pending, math.floor(burst - used_for(row) * numbers.rate + EXACT)))


def rate_wait(row: LimitRow, numbers: Numbers) -> float:
    """Return the seconds until the rate allows the next job."""
    return 0.0 if numbers.rate is None else max(0.0, used_for(row) - ((numbers.burst or 1) - 1) / numbers.rate)


def rate_text(rate: float) -> str:
    """Return a rate as it is given to `djqueue.limits.set`: 100/m. The shortest unit in which it is a whole number."""
    for unit, seconds in UNITS.items():
        count = round(rate * seconds)
        if count and math.isclose(count, rate * seconds, rel_tol=1e-9):
            return f"{count}/{unit}"
    unit = "s" if rate >= 1 else "d"
    return f"{rate * UNITS[unit]:.6f}".rstrip("0").rstrip(".") + f"/{unit}"


def numbers_text(numbers: Numbers | None) -> str:
    """Return what a key allows, in words: 5 at once, 100/m (burst 10)."""
    if numbers is None:
        return _("not known here")
    parts = [] if numbers.concurrency is None else [_("%(count)s at once") % {"count": f"{numbers.concurrency:,}"}]
    if numbers.rate is not None:
        details = {"rate": rate_text(numbers.rate), "burst": f"{numbers.burst or 1:,}"}
        parts.append(_("%(rate)s (burst %(burst)s)") % details)
    return ", ".join(parts) or _("no limit")


def count_text(count: int, most: int | None = MOST_COUNTED) -> str:
    """Return a number of jobs that were counted up to a limit: 12, or 1,000+."""
    return f"{count:,}" if most is None or count <= most else f"{most:,}+"


# The jobs


def holders(key: str, most: int) -> list[Job]:
    """Return jobs that hold a permit of the key, claimed ones first."""
    return _read(SHOWN, f"{PERMIT} ORDER BY status", key, most)


def any_holders(key: str, most: int) -> list[Job]:
    """Return jobs that hold a permit of the key, in no order: no more than these are read."""
    return _read("id, status", PERMIT, key, most)


def waiters(key: str, most: int) -> list[Job]:
    """Return the jobs that wait for a permit of the key, the next one first, along djqueue_job_blocked."""
    return _read(SHOWN, f"{LINE} ORDER BY {PLACE}", key, most)


def ahead(database: Statements, key: str, mark: Mark, most: int) -> int:
    """Return how many blocked jobs of the key come before this place, at most `most`. Those of paused queues do not."""
    parts, params = [], []
    for number, (condition, columns) in enumerate(RANGES):
        parts.append(
            f"SELECT queue FROM (SELECT queue FROM {_jobs(database)} WHERE {LINE} AND {condition}"
            f" ORDER BY {PLACE} LIMIT {most}) part{number}"
        )
        params += [key, *(database.adapt(getattr(mark, name)) for name in columns)]
    # The paused ones are left out of those that were read: the limit bounds what is read.
    queues = f"SELECT queue, COUNT(*) AS jobs FROM ({' UNION ALL '.join(parts)}) line GROUP BY queue"
    sql = f"SELECT SUM(jobs), SUM(CASE WHEN {UNPAUSED} THEN jobs ELSE 0 END) FROM ({queues}) j"
    [[read, found]] = database.fetch(sql, params)
    return most if read is not None and read >= most else int(found or 0)


def _read(columns: str, condition: str, key: str, most: int) -> list[Job]:
    database = statements()
    sql = f"SELECT {columns} FROM {_jobs(database)} WHERE {condition} LIMIT {most}"
    return list(Job.objects.using(database.alias).raw(sql, [key]))


def _jobs(database: Statements) -> str:
    """Return the table of live jobs; MariaDB would sort all jobs of a key, unless it is told which index to use."""
    return "djqueue_job FORCE INDEX (djqueue_job_blocked)" if database.connection.vendor == "mysql" else "djqueue_job"


# The keys


def is_in_use(key: str) -> bool:
    """Return whether a job waits for a permit of the key, or something is stored of it, as while a job holds one."""
    return bool(stored_keys([key]) or waiters(key, 1))


def first_keys(limit: int) -> list[str]:
    """Return the first keys in use, in their order: those of blocked jobs, and those of which something is stored."""
    database = statements()
    stored = LimitKey.objects.using(database.alias).order_by("key").values_list("key", flat=True)[:limit]
    return sorted({*stored, *blocked_keys(database, "", limit)})[:limit]


def keys_without_row() -> list[str]:
    """Return those of the first keys of blocked jobs of which nothing is stored, as none of their jobs was admitted."""
    keys = blocked_keys(statements(), "", FIRST_KEYS)
    stored = stored_keys(keys)
    return [key for key in keys if key not in stored]


def stored_keys(keys: Iterable[str]) -> set[str]:
    rows = LimitKey.objects.using(statements().alias).filter(pk__in=list(keys))
    return set(rows.values_list("pk", flat=True))


def as_json(found: LimitSummary) -> dict[str, Any]:
    """Return what `djqueue limits --json` shows of a key."""
    numbers = found.numbers or Numbers()
    return {
        "key": found.key,
        "task": found.task,
        "known": found.numbers is not None,
        "concurrency": numbers.concurrency,
        "rate": numbers.rate and rate_text(numbers.rate),
        "burst": numbers.burst,
        "set": found.is_set,
        "admitted": found.admitted,
        "running": found.claimed,
        "blocked": found.blocked,
        "held_until": found.held_until,
        "rate_left": found.rate_left,
    }
