"""Measure a scrape of the metrics beside many finished jobs, pending jobs and counted minutes.

python -m benchmarks.metrics [--jobs 1000000] [--minutes 300000]
"""

from __future__ import annotations

import argparse
import time

from .database import set_up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=int, default=300_000, help="rows of djqueue_throughput")
    options = parser.parse_args()
    set_up()
    from django.db import connection

    from tests.fill import fill

    def run(sql: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)

    fill("djqueue_job", 100, status="'pending'", queue="'q' || (n % 10)")
    report("a small queue")
    fill("djqueue_donejob", options.jobs, status="'done'", completed_at="now()")
    fill("djqueue_deadjob", options.jobs // 10, failed_at="now()")
    run("VACUUM ANALYZE")
    report(f"+ {options.jobs} done and {options.jobs // 10} dead jobs")
    run(
        "INSERT INTO djqueue_throughput"
        " (minute, queue, task, wait_bucket, run_bucket, done, wait_sum, run_sum, rolled) "
        "SELECT now() - n * interval '1 second', 'q' || (n % 10), 'task ' || (n % 50), n % 5, n % 7, n, 0.1, 0.1, 1 "
        f"FROM generate_series(1, {options.minutes}) AS n"
    )
    run("VACUUM ANALYZE")
    report(f"+ {options.minutes} counted minutes")
    fill("djqueue_job", options.jobs, status="'pending'", queue="'q' || (n % 10)")
    run("VACUUM ANALYZE")
    report(f"+ {options.jobs} pending jobs")


def report(name: str) -> None:
    """Print the time of one scrape, the best of three, and its slowest statement."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext
    from prometheus_client import CollectorRegistry, generate_latest

    from djqueue.contrib.prometheus import Collector

    registry = CollectorRegistry()
    registry.register(Collector())
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        with CaptureQueriesContext(connection) as sent:
            generate_latest(registry)
        best = min(best, time.perf_counter() - start)
    slowest = max(sent.captured_queries, key=lambda query: float(query["time"]))
    print(f"{name:<45} {best * 1000:7.1f} ms  {len(sent)} statements, the slowest {slowest['time']} s:")
    print(f"    {' '.join(slowest['sql'].split())[:150]}")


if __name__ == "__main__":
    main()
