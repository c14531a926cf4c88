"""What operators and tasks do to a limit key: override its numbers, hold it, release it, look at it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Exists, OuterRef, Q

from djqueue.core.durations import Duration, seconds
from djqueue.core.limits import LimitState, Numbers
from djqueue.core.names import check_name
from djqueue.sql import Statements, limits, statements
from djqueue.sql.connection import LockTimeout, own_transaction
from djqueue.states import Status

from .allowance import numbers_of

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from djqueue.models import Job, LimitKey

BATCH = 1000


def override(key: str, numbers: Numbers) -> None:
    """Use these numbers for the key, in place of the task's, until they are cleared. None leaves the task's number."""
    check_name(key, "limit key")
    database = statements()
    changes: dict[str, Any] = {"concurrency": numbers.concurrency, "rate": numbers.rate, "burst": numbers.burst}
    # What was used up of another rate does not count: a slow one would hold up a fast one for a long time.
    _write(database, key, **changes, spent_until=None)


def hold(key: str, delay: Duration) -> None:
    """Admit no job of the key for so long, and take back the permits of jobs that are not claimed yet.

    A hold is never shortened by another: use `release`.
    """
    check_name(key, "limit key")
    _hold(statements(), key, seconds(delay, "hold"), patiently=True)


def hold_many(database: Statements, holds: Iterable[tuple[str, float]]) -> set[str]:
    """Hold keys, in their order. Return those that could not be held, because another transaction keeps them locked."""
    longest: dict[str, float] = {}
    for key, delay in holds:
        longest[key] = max(delay, longest.get(key, 0.0))
    late = set()
    for key, delay in sorted(longest.items()):
        try:
            _hold(database, key, delay, patiently=database.in_caller_transaction())
        except LockTimeout:
            late.add(key)
    return late


def release(key: str) -> None:
    """End the hold of a key."""
    check_name(key, "limit key")
    _write(statements(), key, held_until=None)


def state(key: str) -> LimitState:
    """Return the numbers of a key, how many jobs hold a permit and how many wait for one, and until when it is held."""
    check_name(key, "limit key")
    database = statements()
    [row] = limits.read(database, [key])
    jobs = limits.jobs_of(database, key)
    holders = jobs.filter(status__in=[Status.PENDING.value, Status.CLAIMED.value])
    task = row.task or next(iter(holders.values_list("task", flat=True)[:1]), None)
    numbers = (None if task is None else numbers_of(row, task)) or row.override
    return LimitState(
        key,
        numbers.concurrency,
        numbers.rate,
        numbers.burst,
        admitted=row.admitted,
        running=row.admitted - row.pending,
        blocked=jobs.filter(status=Status.BLOCKED.value).count(),
        held_until=row.held_until if row.held_until is not None and row.held_until > row.now else None,
    )


def sweep_limits() -> int:
    """Delete what is stored of keys that have neither numbers of their own, nor a hold, nor a rate that is used up."""
    database = statements()
    last = ""
    deleted = 0
    while page := list(_unused(database).filter(key__gt=last).values_list("key", flat=True)[:BATCH]):
        deleted += _delete_unused(database, page)
        last = page[-1]
    return deleted


def _unused(database: Statements) -> QuerySet[LimitKey]:
    """Return keys of which nothing must be remembered. Those of live jobs would be made again immediately."""
    from djqueue.models import Job, LimitKey

    now = database.now()
    unset = Q(concurrency=None, rate=None, burst=None)
    over = (Q(held_until=None) | Q(held_until__lte=now)) & (Q(spent_until=None) | Q(spent_until__lte=now))
    jobs = Job.objects.using(database.alias).filter(limit_key=OuterRef("key"))
    blocked, admitted = jobs.filter(status="blocked"), jobs.filter(status__in=["pending", "claimed"])
    rows = LimitKey.objects.using(database.alias).filter(unset & over)
    return rows.filter(~Exists(blocked), ~Exists(admitted)).order_by("key")


@own_transaction
def _delete_unused(database: Statements, keys: Sequence[str]) -> int:
    rows = _unused(database).filter(key__in=keys).select_for_update(skip_locked=True)
    found = list(rows.values_list("key", flat=True))
    rows.model.objects.using(database.alias).filter(key__in=found)._raw_delete(database.alias)
    return len(found)


@own_transaction
def _write(database: Statements, /, key: str, **changes: Any) -> None:
    """Change the row of a key, and let supervisors look at it."""
    from djqueue.models import LimitKey

    limits.lock(database, [key])
    LimitKey.objects.using(database.alias).filter(key=key).update(**changes)
    database.wake_limits([key])


@own_transaction
def _hold(database: Statements, key: str, delay: float, *, patiently: bool) -> None:
    from djqueue.models import LimitKey

    limits.lock(database, [key], patiently=patiently)
    until = database.now() + timedelta(seconds=delay)
    rows = LimitKey.objects.using(database.alias).filter(key=key)
    rows.filter(Q(held_until=None) | Q(held_until__lt=until)).update(held_until=until)
    give_back(database, limits.jobs_of(database, key))
    database.wake_limits([key])  # a supervisor knows when to look at it again


def give_back(database: Statements, jobs: QuerySet[Job]) -> set[str]:
    """Make those of the jobs blocked again that have a permit and are not claimed, and return their keys."""
    pending = jobs.filter(status="pending", limit_key__isnull=False).order_by("pk")
    found = list(pending.select_for_update(skip_locked=True).values_list("pk", "limit_key"))
    database.block([job for job, _ in found])
    return {key for _, key in found if key is not None}


def give_back_paused() -> None:
    """Take back the permits of jobs in paused queues: one may have been admitted while its queue was being paused."""
    from djqueue.models import Job, QueueState

    database = statements()
    paused = list(QueueState.objects.using(database.alias).filter(paused=True).values_list("queue", flat=True))
    if paused:
        _give_back(database, Job.objects.using(database.alias).filter(queue__in=paused))


@own_transaction
def _give_back(database: Statements, jobs: QuerySet[Job]) -> None:
    give_back(database, jobs)
