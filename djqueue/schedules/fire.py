"""Fire schedules that are due.

The invariant: no slot of a schedule is fired twice, and none is lost, whatever the number of schedulers and whenever
one of them is killed. The scheduler that fires locks the schedule's row (`FOR UPDATE SKIP LOCKED`; on SQLite, the write
lock), and in the same transaction inserts the jobs and moves `next_at` past their slots. The unique index over
(schedule, slot) is the safety net. All times are the database's. `tests/processes/test_schedulers.py` attacks this.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db.models import DateTimeField, Q
from django.db.models.expressions import RawSQL

from djqueue.core.options import CallOptions
from djqueue.core.records import NewJob
from djqueue.exceptions import DjqueueError
from djqueue.lifecycle import eager
from djqueue.lifecycle.cancel import cancel_many
from djqueue.lifecycle.enqueue import insert_many, prepare
from djqueue.sql import Statements, statements
from djqueue.states import WAITING, Misfire, Overlap

from .definition import Definition
from .rows import definition_of, disable_with, move, next_due
from .rules import Rule, last_slots

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from djqueue.models import Schedule

SCHEDULE_HEADER = "djqueue-schedule"
SLOT_HEADER = "djqueue-slot"
BATCH = 100
# A slot that is later than this was missed, and the misfire policy applies.
GRACE = timedelta(seconds=5)
# The number of slots that fit into the grace period, one second apart.
IN_GRACE = 6


@dataclass
class Firing:
    """A due schedule whose row is locked, and the jobs of its slots."""

    row: Schedule
    definition: Definition | None = None
    jobs: list[NewJob] = field(default_factory=list)
    ahead: timedelta = timedelta(0)  # of the clock, which `advance` of the test kit has left behind


def fire_schedules(limit: int = 1000) -> int:
    """Enqueue the jobs of due slots for at most `limit` schedules; return the number of jobs."""
    database = statements()
    fired = 0
    while limit > 0 and seconds_until_next() == 0:
        size = min(limit, BATCH)
        with eager.held():
            rows, jobs = database.own_transaction(partial(_fire_batch, database, size))
        fired += jobs
        limit -= rows
        if rows < size:  # other schedulers have locked the remaining rows
            break
    return fired


def seconds_until_next() -> float | None:
    """Return the seconds until a schedule is due by the database's clock; None if no schedule will be due."""
    next_at, now = next_due(statements())
    return None if next_at is None else max(0.0, (next_at - now).total_seconds())


def job_of(definition: Definition, slot: datetime, run_at: datetime) -> NewJob:
    """Return the job of a slot. Raise if it cannot be stored."""
    call = CallOptions(
        queue=definition.queue or None,
        priority=definition.priority,
        run_at=run_at,
        headers={SCHEDULE_HEADER: definition.name, SLOT_HEADER: slot.isoformat()},
    )
    job = prepare(definition.task, definition.args, definition.kwargs, call, with_hooks=False)
    return job._replace(schedule=definition.name, slot=slot)


def _fire_batch(database: Statements, size: int) -> tuple[int, int]:
    """Fire due schedules that are not locked; return the number of schedules and of jobs."""
    rows = list(_due(database).order_by("next_at").select_for_update(skip_locked=True)[:size])
    if not rows:
        return 0, 0
    now = database.now()
    return len(rows), _fire(database, [_plan(row, now) for row in rows])


def fire_ahead(rows: Iterable[tuple[Schedule, timedelta]]) -> int:
    """Fire schedules whose calendars are ahead of the database's clock by the given times; return the number of jobs.

    For `djqueue.testing.advance`. The slots of jobs are times of the calendar, all other times those of the clock.
    """
    database = statements()

    def fire() -> int:
        now = database.now()
        firings = []
        for row, ahead in rows:
            row.next_at = row.next_at and row.next_at + ahead
            firing = _plan(row, now + ahead)
            row.next_at = row.next_at and row.next_at - ahead
            firing.jobs = [job._replace(run_at=job.run_at and job.run_at - ahead) for job in firing.jobs]
            firing.ahead = ahead
            firings.append(firing)
        return _fire(database, firings)

    with eager.held():
        return database.own_transaction(fire)


def _fire(database: Statements, firings: list[Firing]) -> int:
    """Insert the jobs of firings and move their rows; return the number of jobs."""
    _leave_out_live_slots(database, firings)
    _leave_out_overlaps(database, firings)
    _cancel_replaced(database, firings)
    jobs = [job for firing in firings for job in firing.jobs]
    insert_many(lambda: jobs)
    for firing in firings:
        if firing.jobs:
            slot = firing.jobs[-1].slot
            firing.row.last_at = slot and slot - firing.ahead
            firing.row.last_job_id = firing.jobs[-1].id
    move(database, [firing.row for firing in firings])
    return len(jobs)


def _due(database: Statements) -> QuerySet[Schedule]:
    """Return the due schedules, through the index djqueue_schedule_next."""
    from djqueue.models import Schedule

    now = RawSQL(database.now_sql(), [], output_field=DateTimeField())
    # SQLite would not use the index for a plain enabled=True.
    enabled = Schedule.objects.using(database.alias).filter(enabled__in=[True])
    return enabled.filter(Q(next_at__lte=now) | Q(next_at__isnull=True))


def _plan(row: Schedule, now: datetime) -> Firing:
    """Move a row to its next slot and make the jobs of its due slots; disable a row that is not valid."""
    firing = Firing(row)
    try:
        definition = firing.definition = definition_of(row)
        if row.next_at is None:
            row.next_at = definition.first_slot(now)
            return firing
        rule = definition.rule(row.next_at)
        slots = due_slots(definition, rule, row.next_at, now)
        firing.jobs = [job_of(definition, slot, _run_at(definition, slot, now)) for slot in slots]
        row.next_at = definition.not_after_its_end(rule.next(now))
    except (DjqueueError, OverflowError) as error:
        disable_with(row, error, now)
    return firing


def due_slots(definition: Definition, rule: Rule, first: datetime, now: datetime) -> list[datetime]:
    """Return the slots to fire, of those from `first` until now."""
    until = now if definition.ends_at is None else min(now, definition.ends_at)
    if now - first <= GRACE:
        slots = last_slots(rule, first, until, IN_GRACE)
    elif definition.misfire == Misfire.ALL:
        slots = last_slots(rule, first, until, definition.misfire_cap)
    else:
        slots = last_slots(rule, first, until, 1)
    if definition.misfire == Misfire.SKIP:
        slots = [slot for slot in slots if now - slot <= GRACE]
    # With an overlap policy, only the last of several slots could run.
    return slots if definition.overlap == Overlap.ALLOW else slots[-1:]


def _run_at(definition: Definition, slot: datetime, now: datetime) -> datetime:
    """Return the slot plus up to `jitter` seconds; a missed slot is spread from now on."""
    if not definition.jitter:
        return slot
    return (slot if now - slot <= GRACE else now) + timedelta(seconds=random.uniform(0, definition.jitter))


def _leave_out_live_slots(database: Statements, firings: Iterable[Firing]) -> None:
    """Drop slots whose job is live, as after a manual change of `next_at`: one would fail the whole batch."""
    from djqueue.models import Job

    jobs = [job for firing in firings for job in firing.jobs]
    if not jobs:
        return
    slots = Job.objects.using(database.alias).filter(
        schedule__in={job.schedule for job in jobs}, slot__in={job.slot for job in jobs}
    )
    live = set(slots.values_list("schedule", "slot"))
    for firing in firings:
        firing.jobs = [job for job in firing.jobs if (job.schedule, job.slot) not in live]


def _leave_out_overlaps(database: Statements, firings: Iterable[Firing]) -> None:
    """Drop the slots of schedules with overlap "skip" that have a live job."""
    skipping = _firing_with(Overlap.SKIP, firings)
    if skipping:
        busy = set(_live_jobs(database, skipping).values_list("schedule", flat=True))
        for firing in skipping:
            if firing.row.name in busy:
                firing.jobs = []


def _cancel_replaced(database: Statements, firings: Iterable[Firing]) -> None:
    """Cancel the waiting jobs of schedules with overlap "replace"; a job that is being claimed is locked, and runs."""
    replacing = _firing_with(Overlap.REPLACE, firings)
    if replacing:
        waiting = _live_jobs(database, replacing).filter(status__in=[status.value for status in WAITING])
        ids = list(waiting.order_by("pk").select_for_update(skip_locked=True).values_list("pk", flat=True))
        if ids:
            cancel_many(ids)


def _firing_with(overlap: Overlap, firings: Iterable[Firing]) -> list[Firing]:
    return [one for one in firings if one.jobs and one.definition is not None and one.definition.overlap == overlap]


def _live_jobs(database: Statements, firings: Sequence[Firing]) -> QuerySet[Any]:
    """Return the live jobs of the schedules, through the index djqueue_job_slot."""
    from djqueue.models import Job

    return Job.objects.using(database.alias).filter(
        schedule__in=[firing.row.name for firing in firings], slot__isnull=False
    )
