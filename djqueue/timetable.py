"""A schedule's row: what it says, its next slot, and its switch. Nothing here saves it."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .definitions import FIELDS, Definition, define
from .exceptions import InvalidOption

if TYPE_CHECKING:
    from .models import Schedule

logger = logging.getLogger("djqueue")

# A change of one of these moves the next slot.
_WHEN = ["cron", "every", "timezone", "starts_at", "ends_at"]


def columns(source: Definition | Schedule) -> dict[str, Any]:
    """What a definition or a row says."""
    return {name: getattr(source, name) for name in FIELDS}


def definition_of(row: Schedule) -> Definition:
    """What a row says, checked; raises InvalidOption."""
    return define(columns(row))


def write(row: Schedule, definition: Definition, now: datetime) -> None:
    """Make a row say this; one that had switched itself off has another chance."""
    new = columns(definition)
    moved = any(getattr(row, name) != new[name] for name in _WHEN)
    for name, value in new.items():
        setattr(row, name, value)
    if row.problem:
        row.enabled, row.problem = True, ""
    if row.enabled and (moved or row.next_at is None):
        set_next(row, definition, now)


def set_next(row: Schedule, definition: Definition, now: datetime) -> None:
    """Begin anew with the first slot from now on; a schedule that has none is switched off."""
    try:
        row.next_at = next_slot(row, definition, now)
    except InvalidOption as error:
        switch_off(row, error)


def next_slot(row: Schedule, definition: Definition, now: datetime) -> datetime:
    # Not a slot that has fired, should the database's clock have gone back.
    return definition.first_slot(max(now, row.last_at or now))


def switch_off(row: Schedule, problem: object) -> None:
    """Take a schedule out of service, and leave the reason with it: without one, a person switched it off."""
    row.enabled, row.problem, row.next_at = False, str(problem), None
    logger.warning("schedule switched itself off schedule=%s problem=%s", row.name, problem)
