"""Counts per queue, each read with one statement, so that its numbers are of one moment."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from djqueue.core.records import QueueStats

if TYPE_CHECKING:
    from .contract import Statements


def stats(database: Statements, queue: str) -> QueueStats:
    """Return the exact counts of one queue."""
    live = "(SELECT COUNT(*) FROM djqueue_job WHERE status = '{}' AND queue = %s)"
    [row] = database.fetch(
        f"""
        SELECT {live.format("pending")}, {live.format("scheduled")}, {live.format("claimed")},
               (SELECT COALESCE(SUM(done), 0) FROM djqueue_throughput WHERE queue = %s),
               (SELECT COUNT(*) FROM djqueue_deadjob WHERE queue = %s), {live.format("blocked")}
        """,
        [queue] * 6,
    )
    return QueueStats(*map(int, row))


def names(database: Statements) -> list[str]:
    """Return every queue that ever had a job, in the order of their names."""
    found = set(database.queues_in("djqueue_throughput"))
    found.update(database.queues_in("djqueue_deadjob"))
    found.update(database.queues_in("djqueue_job", "status = 'pending'"))
    found.update(row[0] for row in database.fetch("SELECT DISTINCT queue FROM djqueue_job WHERE status <> 'pending'"))
    return sorted(found)


def live_names(database: Statements) -> set[str]:
    """Return the queues of live jobs without scanning them all.

    Queues with pending jobs are found by index skips. Of the other jobs, only the first thousand are read.
    """
    orders = {"scheduled": "run_at, id", "claimed": "id", "blocked": "limit_key, priority, enqueued_at, id"}
    first = "SELECT queue FROM (SELECT queue FROM djqueue_job WHERE status = '{0}' ORDER BY {1} LIMIT 1000) {0}"
    found = set(database.queues_in("djqueue_job", "status = 'pending'"))
    sql = " UNION ALL ".join(first.format(status, order) for status, order in orders.items())
    found.update(row[0] for row in database.fetch(sql))
    return found


def overview(database: Statements) -> dict[str, QueueStats]:
    """Return the counts of every queue, however many queues there are."""
    counts: dict[str, dict[str, int]] = {}
    for queue, status, count in database.fetch(
        "SELECT queue, status, COUNT(*) FROM djqueue_job GROUP BY queue, status"
        " UNION ALL SELECT queue, 'dead', COUNT(*) FROM djqueue_deadjob GROUP BY queue"
        " UNION ALL SELECT queue, 'done', SUM(done) FROM djqueue_throughput GROUP BY queue"
    ):
        counts.setdefault(queue, {})[status] = int(count)
    columns = [field.name for field in fields(QueueStats)]
    return {queue: QueueStats(**{name: found.get(name, 0) for name in columns}) for queue, found in counts.items()}
