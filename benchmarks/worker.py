"""Measure how fast one worker process drains no-op jobs, compared with a minimal hand-written loop in the same run.

python -m benchmarks.worker [--jobs 20000] [--future 200000] [--threads 4] [--rounds 3]
"""

from __future__ import annotations

import argparse
import time

from .database import set_up
from .workers import Running, worker

BATCH = 100
UNKNOWN = 10_000
CLAIM = """
    WITH picked AS MATERIALIZED (
        SELECT id FROM djqueue_job WHERE status = 'pending'
        ORDER BY priority, enqueued_at, id LIMIT %s FOR UPDATE SKIP LOCKED
    ) UPDATE djqueue_job j SET status = 'claimed' FROM picked WHERE j.id = picked.id
    RETURNING j.id, j.task, j.args, j.kwargs
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--future", type=int, default=200_000)
    parser.add_argument("--threads", default="4")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    set_up()
    from tests.fill import fill

    with worker("--threads", options.threads, "-v", "1") as running:
        bare, ours = measure(running, options.jobs, options.rounds)
        print(f"ratio {ours / bare:.2f} of the bare loop")
        fill("djqueue_job", options.future, status="'scheduled'", run_at="now() + interval '1 day'")
        run("VACUUM ANALYZE djqueue_job")
        _, beside = measure(running, options.jobs, options.rounds)
        print(f"ratio {beside / ours:.2f} with {options.future:,} future jobs in the table", flush=True)
        run("DELETE FROM djqueue_job WHERE status = 'scheduled'")
        known, among = measure_unknown(running, 4 * options.jobs, options.rounds)
        print(f"ratio {among / known:.2f} with {UNKNOWN:,} jobs of unknown tasks before them in the queue")


def measure(running: Running, jobs: int, rounds: int) -> tuple[float, float]:
    """Return the best of a few rounds of each, run alternately."""
    bare = ours = 0.0
    for _ in range(rounds):
        bare = max(bare, bare_loop(jobs))
        ours = max(ours, drain(running, jobs))
    return bare, ours


def measure_unknown(running: Running, jobs: int, rounds: int) -> tuple[float, float]:
    """Measure with and without jobs of unknown tasks, alternately."""
    known = among = 0.0
    for _ in range(rounds):
        known = max(known, drain(running, jobs))
        among = max(among, drain(running, jobs, unknown=UNKNOWN))
        run("DELETE FROM djqueue_job WHERE task = 'nobody.knows'")
    return known, among


def run(sql: str, *params: object) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, params or None)


def fill_queue(jobs: int) -> None:
    import djqueue

    from .tasks import nothing

    nothing.enqueue_many(djqueue.call(n) for n in range(jobs))
    run("VACUUM ANALYZE djqueue_job")


def bare_loop(jobs: int) -> float:
    """Claim and delete in batches from the same table, on a separate connection; the queue is paused for the worker."""
    import psycopg
    from django.db import connection

    import djqueue

    djqueue.Queue("default").pause()
    fill_queue(jobs)
    done = 0
    with psycopg.connect(**connection.get_connection_params() | {"context": None}, autocommit=True) as bare:
        start, cpu = time.perf_counter(), time.process_time()
        while rows := bare.execute(CLAIM, [BATCH]).fetchall():
            bare.execute("DELETE FROM djqueue_job WHERE id = ANY(%s)", [[row[0] for row in rows]])
            done += len(rows)
        took, cpu = time.perf_counter() - start, time.process_time() - cpu
    assert done == jobs
    show("bare loop", jobs, took, 2 * jobs // BATCH, 2 * jobs // BATCH, cpu)
    return jobs / took


def drain(running: Running, jobs: int, unknown: int = 0) -> float:
    """Measure the time from resuming a paused queue until it is empty."""
    import djqueue
    from tests.fill import fill

    queue = djqueue.Queue("default")
    queue.pause()
    if unknown:
        fill("djqueue_job", unknown, task="'nobody.knows'", status="'pending'")
    fill_queue(jobs)
    time.sleep(0.5)
    statements, commits, cpu = running.statements(), committed(), running.cpu()
    start = time.perf_counter()
    queue.resume()
    polls = 0
    while is_busy():
        polls += 1
        time.sleep(0.02)
    took = time.perf_counter() - start
    statements, cpu = running.statements() - statements, running.cpu() - cpu
    time.sleep(1.1)  # backends flush their counters once a second
    commits = committed() - commits - polls
    show("djqueue", jobs, took, statements, commits, cpu)
    return jobs / took


def show(name: str, jobs: int, took: float, statements: int, commits: int, cpu: float) -> None:
    print(
        f"{name:<10} {jobs / took:>8.0f} jobs/s   {statements / jobs:.3f} statements/job   "
        f"{commits / jobs:.3f} commits/job   {cpu / jobs * 1e6:5.0f} µs of CPU/job",
        flush=True,
    )


def is_busy() -> bool:
    from djqueue.sql import statements

    return any(
        statements().fetch(f"SELECT 1 FROM djqueue_job WHERE status = '{status}' AND task <> 'nobody.knows' LIMIT 1")
        for status in ("blocked", "pending", "claimed")
    )


def committed() -> int:
    from djqueue.sql import statements

    found = statements().fetch("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
    return int(found[0][0])


if __name__ == "__main__":
    main()
