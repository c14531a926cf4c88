"""Roll up the counts of past minutes, so that they stay exact and cheap to read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from djqueue.sql import Statements, statements
from djqueue.sql.connection import own_transaction

if TYPE_CHECKING:
    from djqueue.models import Throughput

ROLL_UP_BATCH = 5000
# Counts that are older than a year are kept under this date.
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
LAST_LEVEL = 4
_SUMS = ("done", "failed", "dead", "cancelled", "wait_sum", "run_sum")


def roll_up() -> int:
    """Merge the counts of past minutes, hours, days and years into one row each; return how many rows were merged.

    Rows are deleted and their sums inserted in one transaction, so totals are exact at every moment. Counts older than
    a year are one row per queue and task, without their histogram: the table does not grow with time.
    """
    now = statements().now()
    return (
        _roll(0, now - timedelta(minutes=2), _minute)
        + _roll(1, _hour(now - timedelta(days=2)), _hour)
        + _roll(2, _day(now - timedelta(days=60)), _day)
        + _roll(3, _day(now - timedelta(days=366)), _ever)
    )


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def _hour(at: datetime) -> datetime:
    return _minute(at).replace(minute=0)


def _day(at: datetime) -> datetime:
    return _hour(at).replace(hour=0)


def _ever(at: datetime) -> datetime:
    return LONG_AGO


def _roll(level: int, before: datetime, merge: Callable[[datetime], datetime]) -> int:
    """Roll up the older rows of a level; `before` is the end of a whole hour or day, so that each is merged once."""
    database = statements()
    rolled = 0
    while batch := _roll_batch(database, level, before, merge):
        rolled += batch
    return rolled


@own_transaction
def _roll_batch(database: Statements, level: int, before: datetime, merge: Callable[[datetime], datetime]) -> int:
    from djqueue.models import Throughput

    table = Throughput.objects.using(database.alias)
    unlocked = table.select_for_update(skip_locked=True)
    rows = list(unlocked.filter(rolled=level, minute__lt=before).order_by("minute")[:ROLL_UP_BATCH])
    cells: dict[Cell, Throughput] = {}
    for row in rows:
        _add(cells, _cell(row, merge(row.minute)), row, level + 1)
    merged = list(rows)
    if rows and level + 1 == LAST_LEVEL:
        queues = {row.queue for row in rows}
        for row in unlocked.filter(rolled=LAST_LEVEL, minute=LONG_AGO, queue__in=queues):
            if (cell := _cell(row, row.minute)) in cells:
                _add(cells, cell, row, LAST_LEVEL)
                merged.append(row)
    table.filter(pk__in=[row.pk for row in merged])._raw_delete(database.alias)
    table.bulk_create(cells.values())
    return len(rows)


Cell = tuple[datetime, str, str, int, int]  # minute, queue, task, buckets


def _cell(row: Throughput, minute: datetime) -> Cell:
    buckets = (0, 0) if minute == LONG_AGO else (row.wait_bucket, row.run_bucket)
    return (minute, row.queue, row.task, *buckets)


def _add(cells: dict[Cell, Throughput], cell: Cell, row: Throughput, level: int) -> None:
    from djqueue.models import Throughput

    minute, queue, task, wait_bucket, run_bucket = cell
    if cell not in cells:
        cells[cell] = Throughput(
            minute=minute, queue=queue, task=task, wait_bucket=wait_bucket, run_bucket=run_bucket, rolled=level
        )
    for name in _SUMS:
        setattr(cells[cell], name, getattr(cells[cell], name) + getattr(row, name))
