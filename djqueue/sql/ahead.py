"""The pending jobs that come before another one in its queue, counted up to a limit along djqueue_job_claim."""

from __future__ import annotations

from collections import Counter
from typing import Any

from djqueue.core.records import Mark

from .contract import Statements

# One range of the index each. Row values, (a, b, c) < (x, y, z), would be one range, but not on MariaDB.
RANGES = (
    ("priority < %s", ("priority",)),
    ("priority = %s AND enqueued_at < %s", ("priority", "enqueued_at")),
    ("priority = %s AND enqueued_at = %s AND id < %s", ("priority", "enqueued_at", "id")),
)


def count(database: Statements, queue: str, mark: Mark, most: int) -> int:
    """Return how many pending jobs of the queue come before this place, at most `most`."""
    sql, params = _parts(database, "id", queue, mark, most)
    [[found]] = database.fetch(f"SELECT COUNT(*) FROM ({sql}) ahead", params)
    return min(int(found), most)


def by_task(database: Statements, queue: str, mark: Mark, most: int) -> Counter[str]:
    """Return the tasks of the first so many pending jobs before this place, each with its number of jobs."""
    sql, params = _parts(database, "task", queue, mark, most)
    rows = database.fetch(f"SELECT task, COUNT(*) FROM ({sql}) ahead GROUP BY task", params)
    return Counter({task: int(number) for task, number in rows})


def _parts(database: Statements, column: str, queue: str, mark: Mark, most: int) -> tuple[str, list[Any]]:
    parts, params = [], []
    for number, (condition, columns) in enumerate(RANGES):
        parts.append(
            f"SELECT {column} FROM (SELECT {column} FROM djqueue_job WHERE status = 'pending' AND queue = %s"
            f" AND {condition} ORDER BY queue, priority, enqueued_at, id LIMIT {most}) part{number}"
        )
        params += [queue, *(database.adapt(getattr(mark, name)) for name in columns)]
    return " UNION ALL ".join(parts), params
