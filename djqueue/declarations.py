"""Schedules that code declares, and how they get into the table.

The invariant of `synchronise`: after any number of workers have started at once, there is one row per declared name,
and a person's switch is as it was. Rows that are missing are inserted with conflicts ignored; others are changed under
their locks, taken by name. `tests/test_declarations.py` attacks this.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack

from django.db.models import Q

from . import registry
from .definitions import Definition, Given, validate
from .exceptions import DuplicateSchedule, InvalidOption
from .sql import Statements, statements
from .timetable import columns, set_next, write

if TYPE_CHECKING:
    from .models import Schedule

logger = logging.getLogger("djqueue")

REMOVED = "removed from code"
# A rule that is away for less, as when a worker of the last release restarts in a deploy, has missed its slots; one
# that is away for longer begins anew.
ABSENCE = timedelta(hours=1)

_declared: dict[str, Mapping[str, Any]] = {}


def schedule(name: str, **definition: Unpack[Given]) -> None:
    """Declare a schedule in code; workers write it to the table when they start. A mistake is a system check error."""
    task = definition.get("task")
    # By name: a module that is loaded again has made its tasks anew.
    given = {**definition, "task": getattr(task, "name", task)}
    if name in _declared and _declared[name] != given:
        raise DuplicateSchedule(f"schedule {name!r} is declared already, with another definition")
    _declared[name] = given


def declarations() -> dict[str, Mapping[str, Any]]:
    """What code declares, by name: `djqueue.schedule(...)`, and tasks with a `cron`, under the names of the tasks."""
    by_tasks = {
        task.name: {"task": task.name, "cron": task.options.cron}
        for task in registry.all_tasks()
        if task.options.cron is not None
    }
    return by_tasks | _declared


def synchronise(definitions: Mapping[str, Definition | None] | None = None) -> int:
    """Write what code declares to the table; returns how many rows changed. For a worker, when it starts.

    A rule that code does not have any more is switched off, and on again when it comes back. The last worker to start
    has the last word, and that is all: nothing here is repeated while workers run, so two releases side by side cannot
    undo each other's word for ever. A process that has not imported the code gives the definitions of one that has.
    """
    declared = valid_declarations() if definitions is None else definitions
    database = statements()
    return database.own_transaction(lambda: _synchronise(database, declared))


def valid_declarations() -> dict[str, Definition | None]:
    """By name; None stands for one that is not valid, whose row is left as it is."""
    found: dict[str, Definition | None] = {}
    for name, given in sorted(declarations().items()):
        try:
            found[name] = validate(name, **given)
        except InvalidOption as error:
            found[name] = None
            logger.error("schedule not written schedule=%s problem=%s", name, error)
    return found


def _synchronise(database: Statements, definitions: Mapping[str, Definition | None]) -> int:
    from .models import Schedule

    now = database.now()
    rows = Schedule.objects.using(database.alias).filter(Q(name__in=list(definitions)) | Q(from_code=True))
    known = set(rows.values_list("name", flat=True))
    new = [_new_row(one, now) for one in definitions.values() if one is not None and one.name not in known]
    if new:
        Schedule.objects.using(database.alias).bulk_create(new, ignore_conflicts=True)
    # Read first: the usual start changes nothing, and should not meet a lock.
    stale = [row.pk for row in rows if _follow(row, definitions, now)]
    locked = rows.filter(pk__in=stale).order_by("name").select_for_update() if stale else []
    changed = [row for row in locked if _follow(row, definitions, now)]
    for row in changed:
        row.save(using=database.alias)
    if new or changed:
        database.wake_scheduler()
    return len(new) + len(changed)


def _new_row(definition: Definition, now: datetime) -> Schedule:
    from .models import Schedule

    row = Schedule(**columns(definition), from_code=True)
    set_next(row, definition, now)
    return row


def _follow(row: Schedule, definitions: Mapping[str, Definition | None], now: datetime) -> bool:
    """Make a row what code says; False when it is that already."""
    if row.name not in definitions:
        return _remove(row)
    definition = definitions[row.name]
    if definition is None:
        return False
    if row.from_code and not row.removed_from_code and columns(row) == columns(definition):
        return False
    if row.removed_from_code and row.next_at is not None and now - row.next_at > ABSENCE:
        row.next_at = None
    row.from_code, row.removed_from_code = True, False
    write(row, definition, now)
    return True


def _remove(row: Schedule) -> bool:
    """Switch a row off that code had; False when that was done before, and a person may have had other plans since."""
    if row.removed_from_code:
        return False
    row.removed_from_code = True
    if row.enabled:
        row.enabled, row.problem = False, REMOVED
    return True
