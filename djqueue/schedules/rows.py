"""The rows of schedules: their definition, their next slot, and the two SQL statements of the scheduler."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from djqueue.core.log import logger
from djqueue.core.names import MAX_NAME
from djqueue.core.payload import safe_text
from djqueue.exceptions import InvalidOption

from .definition import FIELDS, Definition, define

if TYPE_CHECKING:
    from djqueue.models import Schedule
    from djqueue.sql import Statements


# A change of one of these columns moves the next slot.
_WHEN = ["cron", "every", "timezone", "starts_at", "ends_at"]
# What firing changes.
_MOVED = ["next_at", "last_at", "last_job_id", "enabled", "problem", "disabled_at", "disabled_by"]


def columns(source: Definition | Schedule) -> dict[str, Any]:
    """Return the columns of a definition or a row."""
    return {name: getattr(source, name) for name in FIELDS}


def definition_of(row: Schedule) -> Definition:
    """Return the checked definition of a row. Raise InvalidOption if it is not valid."""
    return define(columns(row))


def write(row: Schedule, definition: Definition, now: datetime) -> None:
    """Set a row to a definition, and enable it if it was disabled because of a problem."""
    new = columns(definition)
    moved = any(getattr(row, name) != new[name] for name in _WHEN)
    for name, value in new.items():
        setattr(row, name, value)
    if row.problem:
        mark_enabled(row)
    if row.enabled and (moved or row.next_at is None):
        set_next(row, definition, now)


def set_next(row: Schedule, definition: Definition, now: datetime) -> None:
    """Set the next slot to the first one from now on; disable a schedule that has none."""
    try:
        row.next_at = next_slot(row, definition, now)
    except InvalidOption as error:
        disable_with(row, error, now)


def next_slot(row: Schedule, definition: Definition, now: datetime) -> datetime:
    """Return the first slot from now on, and after the last fired one: the database's clock may have gone back."""
    return definition.first_slot(max(now, row.last_at or now))


def mark_enabled(row: Schedule) -> None:
    row.enabled, row.problem, row.disabled_at, row.disabled_by = True, "", None, ""


def mark_disabled(row: Schedule, now: datetime, *, by: str = "", problem: str = "") -> None:
    row.enabled, row.problem, row.next_at = False, problem, None
    row.disabled_at, row.disabled_by = now, safe_text(by[:MAX_NAME], MAX_NAME)


def disable_with(row: Schedule, problem: object, now: datetime) -> None:
    """Disable a schedule because of a problem; a row without one was disabled by an operator."""
    mark_disabled(row, now, problem=str(problem))
    logger.warning("schedule disabled schedule=%s problem=%s", row.name, problem)


def next_due(database: Statements) -> tuple[datetime | None, datetime]:
    """Return when the next schedule is due, and the current time. A row without a next slot is due now.

    Each subquery reads one entry of the index djqueue_schedule_next; the ORDER BY makes the planner use it even with
    old statistics. A single condition with OR would read all enabled rows.
    """
    enabled = "SELECT next_at FROM djqueue_schedule WHERE enabled = %s AND next_at"
    [[next_at, without_next, now]] = database.fetch(
        f"""
        SELECT ({enabled} IS NOT NULL ORDER BY next_at LIMIT 1),
               EXISTS ({enabled} IS NULL ORDER BY next_at LIMIT 1),
               {database.now_sql()}
        """,
        [True, True],
    )
    now = database.instant(now)
    return (now if without_next else database.instant(next_at)), now


def move(database: Statements, rows: Iterable[Schedule]) -> None:
    """Save the columns that firing changes, to locked rows. executemany is several times cheaper than bulk_update."""
    with database.connection.cursor() as cursor:
        cursor.executemany(
            f"UPDATE djqueue_schedule SET {', '.join(f'{name} = %s' for name in _MOVED)} WHERE id = %s",
            [[database.adapt(getattr(row, name)) for name in (*_MOVED, "pk")] for row in rows],
        )
