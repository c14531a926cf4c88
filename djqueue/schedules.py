"""Schedules: make them, change them, switch them on and off, run them now."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, Unpack

from django.db import IntegrityError

from .declarations import declarations, schedule, synchronise
from .definitions import Given, problems, validate
from .exceptions import DuplicateSchedule, InvalidOption, UnknownSchedule
from .handle import JobHandle
from .lifecycle import enqueue
from .lifecycle.fire import job_of, seconds_until_next
from .sql import Statements, statements
from .timetable import columns, definition_of, next_slot, write
from .twins import twin

if TYPE_CHECKING:
    from .models import Schedule

T = TypeVar("T")


def create(name: str, *, enabled: bool = True, **definition: Unpack[Given]) -> Schedule:
    """Make a schedule; raises InvalidOption, or DuplicateSchedule when the name is taken."""
    from .models import Schedule

    checked = validate(name, **definition)
    database = statements()

    def insert() -> Schedule:
        if Schedule.objects.using(database.alias).filter(name=name).exists():
            raise DuplicateSchedule(f"there is a schedule {name!r} already")
        first_slot = checked.first_slot(database.now())
        row = Schedule(**columns(checked), enabled=enabled, next_at=first_slot if enabled else None)
        row.save(using=database.alias, force_insert=True)
        database.wake_scheduler()
        return row

    try:
        return database.own_transaction(insert)
    except IntegrityError as error:  # somebody was faster
        raise DuplicateSchedule(f"there is a schedule {name!r} already") from error


def update(name: str, **changes: Unpack[Given]) -> Schedule:
    """Change what a schedule says; one from code is changed there. A new rule counts from now."""

    def change(row: Schedule, database: Statements) -> None:
        _refuse_from_code(row, "change")
        definition = columns(row)
        # The one that is given takes the place of the other.
        if changes.get("cron"):
            definition["every"] = None
        elif changes.get("every") is not None:
            definition["cron"] = ""
        write(row, validate(**definition | dict(changes)), database.now())

    return _change(name, change)


def enable(name: str) -> Schedule:
    """Switch a schedule on; what would have fired meanwhile is not made up for."""

    def change(row: Schedule, database: Statements) -> None:
        definition = validate(**columns(row))
        if not row.enabled or row.next_at is None:
            row.next_at = next_slot(row, definition, database.now())
        row.enabled, row.problem = True, ""

    return _change(name, change)


def disable(name: str) -> Schedule:
    """Switch a schedule off, until somebody switches it on again: a deploy does not."""

    def change(row: Schedule, database: Statements) -> None:
        row.enabled, row.problem, row.next_at = False, "", None

    return _change(name, change)


def delete(name: str) -> bool:
    """Delete a schedule; False when there is none. Its jobs stay."""

    def remove(row: Schedule, database: Statements) -> bool:
        _refuse_from_code(row, "remove")
        row.delete(using=database.alias)
        return True

    try:
        return _locked(name, remove)
    except UnknownSchedule:
        return False


def run_now(name: str) -> JobHandle:
    """Enqueue a job as the schedule would, now, whatever its rule, its switch and its overlap say."""

    def fire(row: Schedule, database: Statements) -> JobHandle:
        now = database.now()
        job = job_of(definition_of(row), now, now)
        [inserted] = enqueue.enqueue_many(lambda: [job], again=True)
        row.last_at, row.last_job_id = now, inserted.id
        row.save(using=database.alias, update_fields=["last_at", "last_job_id"])
        return JobHandle(inserted.id, inserted.created)

    return _locked(name, fire)


acreate = twin(create)
aupdate = twin(update)
aenable = twin(enable)
adisable = twin(disable)
adelete = twin(delete)
arun_now = twin(run_now)
asynchronise = twin(synchronise)
aseconds_until_next = twin(seconds_until_next)

__all__ = ["create", "delete", "disable", "enable", "run_now", "seconds_until_next", "synchronise", "update"]
__all__ += [f"a{name}" for name in __all__]
__all__ += ["declarations", "problems", "schedule", "validate"]


def _refuse_from_code(row: Schedule, verb: str) -> None:
    if row.from_code and not row.removed_from_code:
        raise InvalidOption(f"schedule {row.name!r} is declared in code: {verb} it there, or disable it here")


def _change(name: str, change: Callable[[Schedule, Statements], None]) -> Schedule:
    """Change a row under its lock, and wake whoever sleeps until the next slot."""

    def save(row: Schedule, database: Statements) -> Schedule:
        change(row, database)
        row.save(using=database.alias)
        database.wake_scheduler()
        return row

    return _locked(name, save)


def _locked(name: str, work: Callable[[Schedule, Statements], T]) -> T:
    """Do something with a row that nobody else can fire or change meanwhile."""
    from .models import Schedule

    database = statements()

    def run() -> T:
        row = Schedule.objects.using(database.alias).select_for_update().filter(name=name).first()
        if row is None:
            raise UnknownSchedule(f"there is no schedule {name!r:.80}")
        return work(row, database)

    return database.own_transaction(run)
