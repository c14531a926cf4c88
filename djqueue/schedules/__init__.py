"""Schedules: create, change, enable, disable, delete and run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, Unpack

from django.db import IntegrityError

from djqueue.core.async_twins import twin
from djqueue.core.options import check_schedule_name
from djqueue.core.shown import shown
from djqueue.exceptions import DuplicateSchedule, InvalidOption, UnknownSchedule
from djqueue.jobs import JobHandle
from djqueue.lifecycle import eager
from djqueue.lifecycle.enqueue import insert_many
from djqueue.sql import Statements, statements

from .definition import Given, problems, validate
from .fire import job_of, seconds_until_next
from .in_code import declarations, schedule, synchronise
from .rows import columns, definition_of, mark_disabled, mark_enabled, next_slot, write

if TYPE_CHECKING:
    from djqueue.models import Schedule

T = TypeVar("T")


def create(name: str, *, enabled: bool = True, **definition: Unpack[Given]) -> Schedule:
    """Create a schedule. Raise InvalidOption if it is not valid, DuplicateSchedule if the name exists."""
    from djqueue.models import Schedule

    checked = validate(name, **definition)
    database = statements()

    def insert() -> Schedule:
        if Schedule.objects.using(database.alias).filter(name=name).exists():
            raise DuplicateSchedule(f"Schedule {name!r} already exists.")
        first_slot = checked.first_slot(database.now())
        row = Schedule(**columns(checked), enabled=enabled, next_at=first_slot if enabled else None)
        row.save(using=database.alias, force_insert=True)
        database.wake_scheduler()
        return row

    try:
        return database.own_transaction(insert)
    except IntegrityError as error:  # created by another transaction since the query above
        raise DuplicateSchedule(f"Schedule {name!r} already exists.") from error


def update(name: str, **changes: Unpack[Given]) -> Schedule:
    """Change a schedule that is not declared in code. A new rule takes effect immediately."""

    def change(row: Schedule, database: Statements) -> None:
        _refuse_from_code(row, "change")
        definition = columns(row)
        # A new cron replaces every, and the other way round.
        if changes.get("cron"):
            definition["every"] = None
        elif changes.get("every") is not None:
            definition["cron"] = ""
        write(row, validate(**definition | dict(changes)), database.now())

    return _save_changed(name, change)


def enable(name: str) -> Schedule:
    """Enable a schedule; slots that passed while it was disabled are not fired."""

    def change(row: Schedule, database: Statements) -> None:
        definition = validate(**columns(row))
        if not row.enabled or row.next_at is None:
            row.next_at = next_slot(row, definition, database.now())
        mark_enabled(row)

    return _save_changed(name, change)


def disable(name: str, by: str = "") -> Schedule:
    """Disable a schedule until `enable` is called; a deployment does not enable it. `by` says who does so."""
    if not isinstance(by, str):
        raise InvalidOption(f"by must be a string, got {shown(by)}")

    def change(row: Schedule, database: Statements) -> None:
        if row.enabled or row.problem:  # otherwise an operator has disabled it before
            mark_disabled(row, database.now(), by=by)

    return _save_changed(name, change)


def delete(name: str) -> bool:
    """Delete a schedule and keep its jobs; return False if it does not exist."""

    def remove(row: Schedule, database: Statements) -> bool:
        _refuse_from_code(row, "remove")
        row.delete(using=database.alias)
        return True

    try:
        return _with_row_locked(name, remove)
    except UnknownSchedule:
        return False


def run_now(name: str) -> JobHandle:
    """Enqueue a job of the schedule now, also if it is disabled, not due, or would overlap another job."""

    def fire(row: Schedule, database: Statements) -> JobHandle:
        now = database.now()
        job = job_of(definition_of(row), now, now)
        [inserted] = insert_many(lambda: [job])
        row.last_at, row.last_job_id = now, inserted.id
        row.save(using=database.alias, update_fields=["last_at", "last_job_id"])
        return JobHandle(inserted.id, inserted.created)

    with eager.held():
        return _with_row_locked(name, fire)


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
        raise InvalidOption(f"Schedule {row.name!r} is declared in code; {verb} it there, or disable it")


def _save_changed(name: str, change: Callable[[Schedule, Statements], None]) -> Schedule:
    """Change a locked row, and wake up the schedulers that sleep until the next slot."""

    def change_and_save(row: Schedule, database: Statements) -> Schedule:
        change(row, database)
        row.save(using=database.alias)
        database.wake_scheduler()
        return row

    return _with_row_locked(name, change_and_save)


def _with_row_locked(name: str, work: Callable[[Schedule, Statements], T]) -> T:
    """Call `work` with the row locked, so that no other process can fire or change it."""
    from djqueue.models import Schedule

    try:
        check_schedule_name(name)
    except InvalidOption as error:
        raise UnknownSchedule(f"Schedule {shown(name)} does not exist: {error}.") from None
    database = statements()

    def run() -> T:
        row = Schedule.objects.using(database.alias).select_for_update().filter(name=name).first()
        if row is None:
            raise UnknownSchedule(f"Schedule {shown(name)} does not exist.")
        return work(row, database)

    return database.own_transaction(run)
