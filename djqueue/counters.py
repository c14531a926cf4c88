"""Counts: exact per queue, and the roll-up that keeps them cheap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import datetime, timedelta

from .models import Throughput
from .options import check_queue
from .records import QueueStats
from .sql import statements
from .twins import twin

ROLL_UP_BATCH = 5000
_SUMS = ("done", "failed", "dead", "cancelled", "wait_sum", "run_sum")


def stats(queue: str) -> QueueStats:
    """Exact counts of one queue, from one statement and so from one moment."""
    check_queue(queue)
    live = "(SELECT COUNT(*) FROM djqueue_job WHERE status = '{}' AND queue = %s)"
    [row] = statements().fetch(
        f"""
        SELECT {live.format("pending")}, {live.format("scheduled")}, {live.format("claimed")},
               (SELECT COALESCE(SUM(done), 0) FROM djqueue_throughput WHERE queue = %s),
               (SELECT COUNT(*) FROM djqueue_deadjob WHERE queue = %s)
        """,
        [queue] * 5,
    )
    return QueueStats(*map(int, row))


def queues() -> list[str]:
    """Every queue that ever had a job, in order of name."""
    database = statements()
    found = set(database.queues_in("djqueue_throughput"))
    found.update(database.queues_in("djqueue_deadjob"))
    found.update(database.queues_in("djqueue_job", "status = 'pending'"))
    found.update(row[0] for row in database.fetch("SELECT DISTINCT queue FROM djqueue_job WHERE status <> 'pending'"))
    return sorted(found)


def overview() -> dict[str, QueueStats]:
    """The counts of every queue, from one statement however many queues there are."""
    database = statements()
    counts: dict[str, dict[str, int]] = {}
    for queue, status, count in database.fetch(
        "SELECT queue, status, COUNT(*) FROM djqueue_job GROUP BY queue, status"
        " UNION ALL SELECT queue, 'dead', COUNT(*) FROM djqueue_deadjob GROUP BY queue"
        " UNION ALL SELECT queue, 'done', SUM(done) FROM djqueue_throughput GROUP BY queue"
    ):
        counts.setdefault(queue, {})[status] = int(count)
    names = [field.name for field in fields(QueueStats)]
    return {queue: QueueStats(**{name: found.get(name, 0) for name in names}) for queue, found in counts.items()}


astats = twin(stats)
aqueues = twin(queues)


def roll_up() -> int:
    """Merge the rows of past minutes, then of past hours and days, into one each; returns how many rows went.

    Rows are taken away and their sums put back in one transaction, so totals are exact at every moment.
    """
    now = statements().now()
    return (
        _roll(0, now - timedelta(minutes=2), lambda at: at)
        + _roll(1, now - timedelta(days=2), lambda at: at.replace(minute=0))
        + _roll(2, now - timedelta(days=60), lambda at: at.replace(hour=0, minute=0))
    )


def _roll(level: int, before: datetime, merge: Callable[[datetime], datetime]) -> int:
    database = statements()

    def roll_batch() -> int:
        table = Throughput.objects.using(database.alias)
        old = table.select_for_update(skip_locked=True).filter(rolled=level, minute__lt=before)
        rows = list(old.order_by("minute")[:ROLL_UP_BATCH])
        cells: dict[tuple[object, ...], Throughput] = {}
        for row in rows:
            minute = merge(row.minute)
            key = minute, row.queue, row.task, row.wait_bucket, row.run_bucket
            cell = cells.get(key)
            if cell is None:
                cell = cells[key] = Throughput(
                    minute=minute,
                    queue=row.queue,
                    task=row.task,
                    wait_bucket=row.wait_bucket,
                    run_bucket=row.run_bucket,
                    rolled=level + 1,
                )
            for name in _SUMS:
                setattr(cell, name, getattr(cell, name) + getattr(row, name))
        table.filter(pk__in=[row.pk for row in rows])._raw_delete(database.alias)
        table.bulk_create(cells.values())
        return len(rows)

    rolled = 0
    while batch := database.own_transaction(roll_batch):
        rolled += batch
    return rolled
