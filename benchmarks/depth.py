"""Measure whether claims slow down with the number of rows: claim and settle ten jobs a hundred times with an empty
table, then with a million pending, future, finished and paused rows and rows in 100 queues, with fresh and with stale
statistics.

    python -m benchmarks.depth [--rows 1000000]

Print the median and the 99th percentile of each, the ratio to the empty table, and the pages that a claim read.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from .database import set_up

FILLINGS = {
    "empty": None,
    "pending": ("djqueue_job", {"status": "'pending'", "priority": "2000"}),
    "future": ("djqueue_job", {"status": "'scheduled'", "run_at": "now() + interval '1 day'"}),
    "finished": ("djqueue_donejob", {"status": "'done'", "completed_at": "now()"}),
    "paused": ("djqueue_job", {"status": "'pending'", "queue": "'paused'"}),
    "100 queues": ("djqueue_job", {"status": "'pending'", "queue": "'q' || mod(n, 100)"}),
}

TITLES = ("beside", "statistics", "claim p50", "claim p99", "settle p50", "settle p99", "claim/empty", "pages")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    set_up()
    print(f"{rows} rows beside the jobs; milliseconds for 10 jobs")
    print("".join(f"{title:>14}" for title in TITLES))
    empty = None
    for name, filling in FILLINGS.items():
        for fresh in (True, False):
            claims, settlements, pages = measure(filling, rows, fresh)
            claim = statistics.median(claims)
            empty = empty or claim
            figures = (
                claim,
                percentile(claims),
                statistics.median(settlements),
                percentile(settlements),
                claim / empty,
            )
            print(f"{name:>14}{'fresh' if fresh else 'stale':>14}", end="")
            print("".join(f"{figure:>14.2f}" for figure in figures) + f"{pages:>14}", flush=True)


def measure(filling, rows: int, fresh: bool) -> tuple[list[float], list[float], int]:  # type: ignore[no-untyped-def]
    import djqueue
    from djqueue.lifecycle import settle
    from tests.fill import fill

    tables = "djqueue_job, djqueue_donejob, djqueue_queuestate, djqueue_throughput"
    run(f"TRUNCATE {tables}", "ALTER TABLE djqueue_job SET (autovacuum_enabled = false)", f"ANALYZE {tables}")
    if filling:
        fill(filling[0], rows, **filling[1])
    djqueue.Queue("paused").pause()
    if fresh:
        run(f"VACUUM ANALYZE {tables.replace(', ', ',')}")
    claims, settlements = [], []
    for _ in range(100):
        fill("djqueue_job", 10, status="'pending'")
        took, jobs = timed(lambda: djqueue.Queue("default").claim(10))
        assert len(jobs) == 10
        claims.append(took)
        items = [settle.ack(job) for job in jobs]
        settlements.append(timed(lambda items=items: settle.settle_many(items))[0])
    fill("djqueue_job", 10, status="'pending'")
    return claims, settlements, pages_of_a_claim()


def pages_of_a_claim() -> int:
    from uuid import uuid4

    from django.db import connection

    from djqueue.sql.postgresql.claim import CLAIM

    with connection.cursor() as cursor:
        cursor.execute(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {CLAIM}",
            [["default"], [10], [30.0], 10, uuid4(), "w", "w", True, None, [], []],
        )
        plan = cursor.fetchone()[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def run(*sqls: str) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        for sql in sqls:
            cursor.execute(sql)


def timed(work: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    result = work()
    return (time.perf_counter() - start) * 1000, result


def percentile(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99) - 1]


if __name__ == "__main__":
    main()
