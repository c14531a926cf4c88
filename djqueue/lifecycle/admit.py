"""Admit blocked jobs: make them pending as far as the limits of their keys allow.

The invariant: when a transaction that admits jobs commits, the pending and claimed jobs of each of its keys are at most
the key's concurrency. A permit is not stored anywhere, so it cannot leak: the permit is the row of the job.

An admission locks the row of the key first, and counts in a later statement, which sees what the transactions before it
have committed. Locking and counting in one statement would count by a snapshot from before the wait for the lock.

Nothing is forgotten: whoever commits a job that waits for a permit, or gives a permit back, calls `admit_keys` or
notifies the supervisors afterwards. Whoever does that last sees all of it. What a process that died in between has left
is found by the supervisors, which look at all keys every ten seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from django.db import DatabaseError

from djqueue.core.log import logger
from djqueue.core.records import Admit, AdmittedJob, LimitRow
from djqueue.sql import Statements, limits, statements
from djqueue.sql.connection import LockTimeout, slices_of
from djqueue.states import Status

from .allowance import JOBS, LOCKED_ELSEWHERE, SHORTEST, Allowance, used_for

KEYS = 500  # in one transaction
TURNS = 100  # transactions for the same key, one after the other
MOST_TIMEOUTS = 3  # of locks, in one admission


@dataclass
class Admission:
    """What an admission did."""

    admitted: int = 0
    waits: dict[str, float] = field(default_factory=dict)  # key → seconds until it should be read again
    more: list[str] = field(default_factory=list)  # keys that should be read again now

    def add(self, other: Admission) -> None:
        self.admitted += other.admitted
        self.waits |= other.waits
        self.more += other.more


def admit() -> int:
    """Admit what may be admitted, of all keys, and return how many jobs that were."""
    return sum(admit_keys(page).admitted for page in blocked_pages())


def blocked_pages() -> Iterator[list[str]]:
    """Return the keys of blocked jobs, in pages."""
    page = [""]
    while page := limits.blocked_keys(statements(), page[-1], KEYS):
        yield page
        if len(page) < KEYS:
            return


def admit_keys(keys: Iterable[str], *, freed: bool = False) -> Admission:
    """Admit what may be admitted of these keys. `freed` is whether their permits have just come back.

    Keys are read without a lock first: most of them have nothing to admit.
    """
    database, allowance = statements(), Allowance()
    admission = Admission()
    left: Sequence[str] = sorted(set(keys))
    turns = 0
    while left:
        promising: list[LimitRow] = []
        for part in slices_of(left, KEYS):
            rows = limits.read(database, part, counted=not freed)
            promising += [row for row in rows if allowance.left(row, row.task) > 0 or allowance.may_overtake(row)]
            admission.waits |= allowance.waits(rows)
        for looked in slices_of(promising, KEYS):
            admission.add(_admit_soon(database, allowance, looked))
        left, admission.more = admission.more, []
        freed = False  # the next look counts: without a lock, if there is nothing left to admit
        turns += 1
        if turns == TURNS and left:
            admission.waits |= dict.fromkeys(left, SHORTEST)  # other work has to be done too
            break
    return admission


def hand_on(keys: Iterable[str | None]) -> int:
    """Hand on the permits that settled jobs have given back, and return how many jobs were admitted.

    Inside a caller's transaction, supervisors are notified instead: a lock on a key would be kept until its end. If the
    database fails, nothing is raised: what was settled is committed.
    """
    freed = {key for key in keys if key is not None}
    if not freed:
        return 0
    database = statements()
    if database.in_caller_transaction():
        database.wake_limits(freed)
        return 0
    try:
        done = admit_keys(freed, freed=True)
        if done.waits:
            database.wake_limits(done.waits)  # a supervisor knows when to look at these again
    except DatabaseError as error:
        logger.warning("permits were not handed on, which a supervisor does soon keys=%d error=%s", len(freed), error)
        return 0
    return done.admitted


def _admit_soon(database: Statements, allowance: Allowance, looked: Sequence[LimitRow]) -> Admission:
    """Admit jobs of these keys in a transaction. Leave out those that a transaction which was left open has locked."""
    patiently = database.in_caller_transaction()
    try:
        return database.own_transaction(lambda: _admit(database, allowance, looked, patiently))
    except LockTimeout:
        done = database.own_transaction(lambda: _admit_unlocked(database, allowance, looked))
    # A row that such a transaction has made cannot be seen yet: of the keys without a row, each is tried alone.
    timeouts = 0
    for row in looked:
        if row.key in done.waits and not done.waits[row.key] and timeouts < MOST_TIMEOUTS:
            done.waits[row.key] = LOCKED_ELSEWHERE
            try:
                alone = database.own_transaction(partial(_admit, database, allowance, [row], patiently))
            except LockTimeout:
                timeouts += 1
            else:
                del done.waits[row.key]
                done.add(alone)
    done.waits = {key: wait or LOCKED_ELSEWHERE for key, wait in done.waits.items()}
    return done


def _admit_unlocked(database: Statements, allowance: Allowance, looked: Sequence[LimitRow]) -> Admission:
    """Admit jobs of those keys whose rows can be locked. Keys without a row get a wait of no seconds."""
    locked, missing = limits.locked_elsewhere(database, [row.key for row in looked])
    done = _admit(database, allowance, [row for row in looked if row.key not in locked | missing], patiently=False)
    done.waits |= dict.fromkeys(locked, LOCKED_ELSEWHERE) | dict.fromkeys(missing, 0.0)
    return done


def _admit(database: Statements, allowance: Allowance, looked: Sequence[LimitRow], patiently: bool) -> Admission:
    """Admit jobs of these keys in one transaction."""
    if not looked:
        return Admission()
    tasks = {row.key: row.task for row in looked}
    # What was read before the lock may be out of date, except for the task of the next job, which is checked below.
    locked = limits.lock(database, list(tasks), patiently=patiently)
    rows = {row.key: row._replace(task=tasks[row.key]) for row in locked}
    overtaken = {row.key for row in looked if row.overtakes and _take_back(database, allowance, row)}
    asked = [
        Admit(key, numbers.concurrency, numbers.burst, most)
        for key, row in rows.items()
        if (most := allowance.left(row, row.task)) > 0 and (numbers := allowance.numbers(row, row.task)) is not None
    ]
    found: dict[str, list[AdmittedJob]] = {ask.key: [] for ask in asked}
    admitted, counts = database.admit(asked) if asked else ([], {})
    for job in admitted:
        found[job.limit_key].append(job)
    for key, count in counts.items():
        rows[key] = rows[key]._replace(admitted=count.admitted, pending=count.pending)
    return _keep_allowed(database, allowance, rows, found, overtaken)


def _keep_allowed(
    database: Statements,
    allowance: Allowance,
    rows: dict[str, LimitRow],
    found: dict[str, list[AdmittedJob]],
    overtaken: set[str],
) -> Admission:
    """Block those of the admitted jobs again that are beyond the limits of their own tasks, and pay for the others.

    `rows` are the keys as they were before; `found` has the admitted jobs of each key in their order.
    """
    done = Admission()
    refused: list[AdmittedJob] = []
    spent: dict[str, datetime] = {}
    for key, jobs in found.items():
        row = rows[key]
        kept = allowance.allowed(row, jobs)
        refused += jobs[kept:]
        done.admitted += kept
        if kept and (kept < len(jobs) or kept == JOBS or key in overtaken or allowance.is_mixed(row)):
            # There may be jobs of a task with other numbers, more than fit into a transaction, or more that overtake.
            done.more.append(key)
        elif not kept and (jobs or allowance.left(row, row.task) > 0):
            done.waits[key] = LOCKED_ELSEWHERE  # another job is next by now, or another transaction has it locked
        if used := allowance.seconds_of_rate(row, jobs[:kept]):
            spent[key] = row.now + timedelta(seconds=used_for(row) + used)
            rows[key] = row._replace(spent_until=spent[key], pending=row.pending + kept)
    if refused:
        database.block([job.id for job in refused])
    limits.spend(database, spent)
    done.waits |= allowance.waits(rows.values())
    return done


def _take_back(database: Statements, allowance: Allowance, row: LimitRow) -> bool:
    """Make a job blocked again that has a permit of a locked key, is not claimed, and is worse than one in line.

    It returns to its place in line, and the permit goes to the best job. Return whether there was such a job.
    """
    if allowance.left(row, row.task) > 0:
        return False  # there are permits left
    jobs = limits.jobs_of(database, row.key)
    line = limits.unpaused(jobs.filter(status=Status.BLOCKED.value)).order_by("priority", "enqueued_at", "pk")
    best = list(line.select_for_update(skip_locked=True).values_list("priority", flat=True)[:1])
    if not best:
        return False
    worse = jobs.filter(status=Status.PENDING.value, priority__gt=best[0]).order_by("-priority", "-enqueued_at", "-pk")
    last = list(worse.select_for_update(skip_locked=True).values_list("pk", flat=True)[:1])
    database.block(last)
    return bool(last)
