"""Schedules declared in code, and how they are written to the table.

The invariant of `synchronise`: after any number of workers have started at the same time, there is one row per declared
name, and a deployment has changed neither what an operator disabled nor what an operator enabled. Missing rows are
inserted with conflicts ignored; others are locked in the order of their names and changed.
`tests/schedules/test_in_code.py` attacks this.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack

from django.db.models import Q

from djqueue.core import payload, registry
from djqueue.core.log import logger
from djqueue.exceptions import DuplicateSchedule, InvalidOption
from djqueue.sql import Statements, statements

from .definition import Definition, Given, validate
from .rows import columns, set_next, write

if TYPE_CHECKING:
    from djqueue.models import Schedule


REMOVED = "removed from code"
# A declaration that was absent for less than this, as when a worker of the previous release restarts during a
# deployment, has missed its slots; after a longer absence it starts with its next slot.
ABSENCE = timedelta(hours=1)

_declared: dict[str, Mapping[str, Any]] = {}


def schedule(name: str, **definition: Unpack[Given]) -> None:
    """Declare a schedule in code. Workers write it to the table at start-up; a system check reports mistakes."""
    task = definition.get("task")
    # By name, because reloading a module creates new Task objects.
    given = {**definition, "task": getattr(task, "name", task)}
    if name in _declared and _declared[name] != given:
        raise DuplicateSchedule(f"Schedule {name!r} is already declared with another definition.")
    _declared[name] = given


def declarations() -> dict[str, Mapping[str, Any]]:
    """Return the declarations by name: of `djqueue.schedule(...)`, and of tasks with a `cron` under the task's name."""
    by_tasks = {
        task.name: {"task": task.name, "cron": task.options.cron}
        for task in registry.all_tasks()
        if task.options.cron is not None
    }
    return by_tasks | _declared


def synchronise(definitions: Mapping[str, Definition | None] | None = None) -> int:
    """Write the declarations to the table and return the number of changed rows. Workers call it once, at start-up.

    A schedule that is no longer declared is disabled, and enabled again when it is declared again. The last worker to
    start wins. Because a running worker does not repeat this, two releases that run side by side cannot overwrite each
    other's declarations forever. A process that has not imported the project passes the definitions of one that has.
    """
    declared = valid_declarations() if definitions is None else definitions
    database = statements()
    return database.own_transaction(lambda: _write_all(database, declared))


def valid_declarations() -> dict[str, Definition | None]:
    """Return the declared definitions by name; None for one that is not valid, whose row stays as it is."""
    found: dict[str, Definition | None] = {}
    for name, given in sorted(declarations().items()):
        try:
            found[name] = validate(name, **given)
        except InvalidOption as error:
            found[name] = None
            logger.error("schedule not written schedule=%s problem=%s", name, error)
    return found


def _write_all(database: Statements, definitions: Mapping[str, Definition | None]) -> int:
    from djqueue.models import Schedule

    now = database.now()
    rows = Schedule.objects.using(database.alias).filter(Q(name__in=list(definitions)) | Q(from_code=True))
    known = set(rows.values_list("name", flat=True))
    new = [_new_row(one, now) for one in definitions.values() if one is not None and one.name not in known]
    if new:
        Schedule.objects.using(database.alias).bulk_create(new, ignore_conflicts=True)
    # Read without locks first: usually nothing has changed, and a start should not wait for a lock.
    stale = [row.pk for row in rows if _apply(row, definitions, now)]
    locked = rows.filter(pk__in=stale).order_by("name").select_for_update() if stale else []
    changed = [row for row in locked if _apply(row, definitions, now)]
    for row in changed:
        row.save(using=database.alias)
    if new or changed:
        database.wake_scheduler()
    return len(new) + len(changed)


def _new_row(definition: Definition, now: datetime) -> Schedule:
    from djqueue.models import Schedule

    row = Schedule(**columns(definition), from_code=True)
    set_next(row, definition, now)
    return row


def _apply(row: Schedule, definitions: Mapping[str, Definition | None], now: datetime) -> bool:
    """Apply the declaration to a row; return False if nothing changed."""
    if row.name not in definitions:
        return _disable(row, now)
    definition = definitions[row.name]
    if definition is None:
        return False
    if row.from_code and not row.removed_from_code and _texts(row) == _texts(definition):
        return False
    if row.removed_from_code and row.next_at is not None and now - row.next_at > ABSENCE:
        row.next_at = None
    row.from_code, row.removed_from_code = True, False
    write(row, definition, now)
    return True


def _texts(source: Definition | Schedule) -> dict[str, Any]:
    """Return the columns as they are stored: Decimal("1.0") equals Decimal("1.00"), but is another argument."""
    return columns(source) | {name: payload.encode_typed(getattr(source, name), name) for name in ("args", "kwargs")}


def _disable(row: Schedule, now: datetime) -> bool:
    """Disable a schedule that is no longer declared; return False if this was done before.

    It is done once only, because an operator may have enabled the schedule since.
    """
    if row.removed_from_code:
        return False
    row.removed_from_code = True
    if row.enabled:
        row.enabled, row.problem, row.disabled_at = False, REMOVED, now
    return True
