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

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from django.db import DatabaseError

from djqueue.core import registry
from djqueue.core.limits import Numbers
from djqueue.core.log import logger
from djqueue.core.records import Admit, AdmittedJob, LimitRow
from djqueue.sql import Statements, limits, statements
from djqueue.sql.connection import LockTimeout, slices_of
from djqueue.states import Status

KEYS = 500  # in one transaction
JOBS = 1000  # of one key in one transaction
TURNS = 100  # transactions for the same key, one after the other
LOCKED_ELSEWHERE = 0.5  # seconds after which a key is read again, if its row or those of its next jobs are locked
SHORTEST = 0.05
MOST_TIMEOUTS = 3  # of locks, in one admission
EXACT = 1e-6  # of a job: what rounding may cost


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
    database = statements()
    admission = Admission()
    left: Sequence[str] = sorted(set(keys))
    turns = 0
    while left:
        promising: list[LimitRow] = []
        for part in slices_of(left, KEYS):
            rows = limits.read(database, part, counted=not freed)
            promising += [row for row in rows if _most(row, row.task) > 0 or _may_overtake(row)]
            admission.waits |= _waits(rows)
        for looked in slices_of(promising, KEYS):
            admission.add(_admit_soon(database, looked))
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


def _admit_soon(database: Statements, looked: Sequence[LimitRow]) -> Admission:
    """Admit jobs of these keys in a transaction. Leave out those that a transaction which was left open has locked."""
    patiently = database.in_caller_transaction()
    try:
        return database.own_transaction(lambda: _admit(database, looked, patiently))
    except LockTimeout:
        done = database.own_transaction(lambda: _admit_unlocked(database, looked))
    # A row that such a transaction has made cannot be seen yet: of the keys without a row, each is tried alone.
    timeouts = 0
    for row in looked:
        if row.key in done.waits and not done.waits[row.key] and timeouts < MOST_TIMEOUTS:
            done.waits[row.key] = LOCKED_ELSEWHERE
            try:
                alone = database.own_transaction(partial(_admit, database, [row], patiently))
            except LockTimeout:
                timeouts += 1
            else:
                del done.waits[row.key]
                done.add(alone)
    done.waits = {key: wait or LOCKED_ELSEWHERE for key, wait in done.waits.items()}
    return done


def _admit_unlocked(database: Statements, looked: Sequence[LimitRow]) -> Admission:
    """Admit jobs of those keys whose rows can be locked. Keys without a row get a wait of no seconds."""
    locked, missing = limits.locked_elsewhere(database, [row.key for row in looked])
    done = _admit(database, [row for row in looked if row.key not in locked | missing], patiently=False)
    done.waits |= dict.fromkeys(locked, LOCKED_ELSEWHERE) | dict.fromkeys(missing, 0.0)
    return done


def _admit(database: Statements, looked: Sequence[LimitRow], patiently: bool) -> Admission:
    """Admit jobs of these keys in one transaction."""
    if not looked:
        return Admission()
    tasks = {row.key: row.task for row in looked}
    # What was read before the lock may be out of date, except for the task of the next job, which is checked below.
    locked = limits.lock(database, list(tasks), patiently=patiently)
    rows = {row.key: row._replace(task=tasks[row.key]) for row in locked}
    overtaken = {row.key for row in looked if row.overtakes and _take_back(database, row)}
    asked = [
        Admit(key, numbers.concurrency, numbers.burst, most)
        for key, row in rows.items()
        if (numbers := numbers_of(row, row.task)) is not None and (most := _most(row, row.task)) > 0
    ]
    found: dict[str, list[AdmittedJob]] = {ask.key: [] for ask in asked}
    admitted, counts = database.admit(asked) if asked else ([], {})
    for job in admitted:
        found[job.limit_key].append(job)
    done, limited = Admission(), _limits()
    refused: list[AdmittedJob] = []
    spent: dict[str, datetime] = {}
    for key, jobs in found.items():
        row = rows[key] = rows[key]._replace(admitted=counts[key].admitted, pending=counts[key].pending)
        kept = _allowed(row, jobs)
        refused += jobs[kept:]
        done.admitted += kept
        if kept and (kept < len(jobs) or kept == JOBS or _is_mixed(row, limited) or key in overtaken):
            # There may be jobs of a task with other numbers, more than fit into a transaction, or more that overtake.
            done.more.append(key)
        elif not kept and (jobs or _most(row, row.task) > 0):
            done.waits[key] = LOCKED_ELSEWHERE  # another job is next by now, or another transaction has it locked
        if used := sum(_seconds_of_rate(row, job.task) for job in jobs[:kept]):
            spent[key] = row.now + timedelta(seconds=used_for(row) + used)
            rows[key] = row._replace(spent_until=spent[key], pending=row.pending + kept)
    if refused:
        database.block([job.id for job in refused])
    limits.spend(database, spent)
    done.waits |= _waits(rows.values())
    return done


def _seconds_of_rate(row: LimitRow, task: str) -> float:
    """Return for how long an admitted job of a task uses up the rate of the key."""
    numbers = numbers_of(row, task)
    return 0.0 if numbers is None or numbers.rate is None else 1 / numbers.rate


def _limits() -> set[Numbers]:
    """Return the numbers of all tasks that have a limit."""
    return {options.limit.numbers for options in registry.known().values() if options.limit is not None}


def _is_mixed(row: LimitRow, limited: Iterable[Numbers]) -> bool:
    """Return whether the key may be shared by tasks with different numbers."""
    return len({numbers.replaced_by(row.override) for numbers in limited}) > 1


def numbers_of(row: LimitRow, task: str | None) -> Numbers | None:
    """Return what the key allows to jobs of a task; None without a task, or if its limit is not known here."""
    if task is None:
        return None
    options = registry.known_options(task)
    if options is None:
        # A process that does not know the task does not know its limit, unless an operator has set all of it.
        return row.override if row.override.concurrency is not None and row.override.rate is not None else None
    return (Numbers() if options.limit is None else options.limit.numbers).replaced_by(row.override)


def _most(row: LimitRow, task: str | None) -> int:
    """Return how many jobs of the key may be admitted now, by the numbers of a task."""
    numbers = numbers_of(row, task)
    if numbers is None or (row.held_until is not None and row.held_until > row.now):
        return 0
    most = JOBS
    if numbers.concurrency is not None:
        most = min(most, numbers.concurrency - row.admitted)
    if numbers.rate is not None:
        burst = numbers.burst or 1
        # Jobs that were admitted and not claimed count too: all of them may start at once.
        most = min(most, burst - row.pending, math.floor(burst - used_for(row) * numbers.rate + EXACT))
    return max(0, most)


def _may_overtake(row: LimitRow) -> bool:
    """Return whether the next job could be admitted if a job of a lower priority gave its permit back."""
    return row.overtakes and _most(row._replace(admitted=row.admitted - 1, pending=row.pending - 1), row.task) > 0


def _take_back(database: Statements, row: LimitRow) -> bool:
    """Make a job blocked again that has a permit of a locked key, is not claimed, and is worse than one in line.

    It returns to its place in line, and the permit goes to the best job. Return whether there was such a job.
    """
    if _most(row, row.task) > 0:
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


def used_for(row: LimitRow) -> float:
    """Return for how many seconds the rate of the key is used up."""
    return 0.0 if row.spent_until is None else max(0.0, (row.spent_until - row.now).total_seconds())


def _allowed(row: LimitRow, jobs: Sequence[AdmittedJob]) -> int:
    """Return how many of the jobs, in their order, are within the limits of their own tasks.

    Tasks that share a key may have different numbers: a job waits if its own are used up, and so do those behind it.
    """
    most = {task: _most(row, task) for task in {job.task for job in jobs}}
    return next((place for place, job in enumerate(jobs) if place >= most[job.task]), len(jobs))


def _waits(rows: Iterable[LimitRow]) -> dict[str, float]:
    """Return the seconds until the rate or the hold of a key allows more, of keys for which nothing else is missing."""
    waits = {}
    for row in rows:
        numbers = numbers_of(row, row.task)
        if numbers is None:
            continue
        wait = 0.0
        if row.held_until is not None:
            wait = (row.held_until - row.now).total_seconds()
        if numbers.rate is not None:
            burst = numbers.burst or 1
            wait = max(wait, used_for(row) - (burst - 1) / numbers.rate)
            if row.pending >= burst:
                wait = max(wait, min(LOCKED_ELSEWHERE, 1 / numbers.rate), SHORTEST)  # until they are claimed
        if wait > 0:
            waits[row.key] = wait
    return waits
