"""Fire schedules that are due.

The invariant: no slot of a schedule is fired twice, and none is forgotten, whatever number of schedulers there is and
whenever one of them is killed. Who fires holds the schedule's row (`FOR UPDATE SKIP LOCKED`; on SQLite, the write
lock), and inserts the jobs and moves `next_at` behind their slots in that one transaction. The unique index over
(schedule, slot) stands behind it. All instants are the database's. `tests/processes/test_schedulers.py` attacks this.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db.models import DateTimeField, Q
from django.db.models.expressions import RawSQL

from djqueue.cron import Rule, last_slots
from djqueue.definitions import Definition
from djqueue.exceptions import DjqueueError
from djqueue.options import CallOptions
from djqueue.records import NewJob
from djqueue.sql import Statements, statements
from djqueue.sql.schedules import move, next_due
from djqueue.states import Misfire, Overlap, Status
from djqueue.timetable import definition_of, switch_off

from . import enqueue
from .cancel import cancel_many

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from djqueue.models import Schedule

SCHEDULE_HEADER = "djqueue-schedule"
SLOT_HEADER = "djqueue-slot"
BATCH = 100
# What is later than this was missed, and goes by the misfire policy.
GRACE = timedelta(seconds=5)
# As many slots as fit into the grace, a second apart.
IN_GRACE = 6


@dataclass
class Firing:
    """A schedule that is due, in our hands, and the jobs of its slots."""

    row: Schedule
    definition: Definition | None = None
    jobs: list[NewJob] = field(default_factory=list)


def fire_schedules(limit: int = 1000) -> int:
    """Enqueue the jobs of due slots, of at most so many schedules; returns how many jobs."""
    database = statements()
    fired = 0
    while limit > 0 and seconds_until_next() == 0:
        size = min(limit, BATCH)
        rows, jobs = database.own_transaction(partial(_fire_batch, database, size))
        fired += jobs
        limit -= rows
        if rows < size:  # what is left, if anything, is in the hands of others
            break
    return fired


def seconds_until_next() -> float | None:
    """How long until a schedule is due, by the database's clock; 0 when one is, None when none will be."""
    next_at, now = next_due(statements())
    return None if next_at is None else max(0.0, (next_at - now).total_seconds())


def job_of(definition: Definition, slot: datetime, run_at: datetime) -> NewJob:
    """The job of a slot; raises when it cannot be stored."""
    call = CallOptions(
        queue=definition.queue or None,
        priority=definition.priority,
        run_at=run_at,
        headers={SCHEDULE_HEADER: definition.name, SLOT_HEADER: slot.isoformat()},
    )
    prepared = enqueue.prepare(definition.task, definition.args, definition.kwargs, call)
    return replace(prepared.job, schedule=definition.name, slot=slot)


def _fire_batch(database: Statements, size: int) -> tuple[int, int]:
    """Fire schedules that nobody else is firing; returns how many, and how many jobs that made."""
    rows = list(_due(database).order_by("next_at").select_for_update(skip_locked=True)[:size])
    if not rows:
        return 0, 0
    now = database.now()
    firings = [_plan(row, now) for row in rows]
    _leave_out_live_slots(database, firings)
    _leave_out_overlaps(database, firings)
    _cancel_replaced(database, firings)
    jobs = [job for firing in firings for job in firing.jobs]
    enqueue.enqueue_many(lambda: jobs, again=True)
    for firing in firings:
        if firing.jobs:
            firing.row.last_at = firing.jobs[-1].slot
            firing.row.last_job_id = firing.jobs[-1].id
    move(database, rows)
    return len(rows), len(jobs)


def _due(database: Statements) -> QuerySet[Schedule]:
    """Along djqueue_schedule_next."""
    from djqueue.models import Schedule

    now = RawSQL(database.now_sql(), [], output_field=DateTimeField())
    # As a list, for SQLite finds no index for a bare "enabled".
    enabled = Schedule.objects.using(database.alias).filter(enabled__in=[True])
    return enabled.filter(Q(next_at__lte=now) | Q(next_at__isnull=True))


def _plan(row: Schedule, now: datetime) -> Firing:
    """Move a row to its next slot and make the jobs of those that are due; a bad row is switched off."""
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
        switch_off(row, error)
    return firing


def due_slots(definition: Definition, rule: Rule, first: datetime, now: datetime) -> list[datetime]:
    """The slots to fire, of those from `first` to the present."""
    until = now if definition.ends_at is None else min(now, definition.ends_at)
    if now - first <= GRACE:
        slots = last_slots(rule, first, until, IN_GRACE)
    elif definition.misfire == Misfire.ALL:
        slots = last_slots(rule, first, until, definition.misfire_cap)
    else:
        slots = last_slots(rule, first, until, 1)
    if definition.misfire == Misfire.SKIP:
        slots = [slot for slot in slots if now - slot <= GRACE]
    # Of several at once, only the last could stay.
    return slots if definition.overlap == Overlap.ALLOW else slots[-1:]


def _run_at(definition: Definition, slot: datetime, now: datetime) -> datetime:
    """The slot, or up to `jitter` after it; what was missed is spread from now on."""
    if not definition.jitter:
        return slot
    return (slot if now - slot <= GRACE else now) + timedelta(seconds=random.uniform(0, definition.jitter))


def _leave_out_live_slots(database: Statements, firings: Iterable[Firing]) -> None:
    """Somebody moved `next_at` back by hand: a slot whose job is live would fail the whole batch."""
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
    skipping = _firing_with(Overlap.SKIP, firings)
    if skipping:
        busy = set(_live_jobs(database, skipping).values_list("schedule", flat=True))
        for firing in skipping:
            if firing.row.name in busy:
                firing.jobs = []


def _cancel_replaced(database: Statements, firings: Iterable[Firing]) -> None:
    """Cancel jobs that wait; one that is being claimed just now is locked, and goes on."""
    replacing = _firing_with(Overlap.REPLACE, firings)
    if replacing:
        waiting = _live_jobs(database, replacing).filter(status__in=[Status.SCHEDULED.value, Status.PENDING.value])
        ids = list(waiting.order_by("pk").select_for_update(skip_locked=True).values_list("pk", flat=True))
        if ids:
            cancel_many(ids)


def _firing_with(overlap: Overlap, firings: Iterable[Firing]) -> list[Firing]:
    return [one for one in firings if one.jobs and one.definition is not None and one.definition.overlap == overlap]


def _live_jobs(database: Statements, firings: Sequence[Firing]) -> QuerySet[Any]:
    """Along djqueue_job_slot."""
    from djqueue.models import Job

    return Job.objects.using(database.alias).filter(
        schedule__in=[firing.row.name for firing in firings], slot__isnull=False
    )
