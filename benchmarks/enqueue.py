"""Measure how fast jobs are created: compare `enqueue_many` with a plain COPY of the same rows, and single enqueues
with a plain INSERT, with NOTIFY on and off, from one thread and from several, in autocommit mode and in transactions.

    python -m benchmarks.enqueue [--jobs 50000] [--threads 8] [--least 0.9]

The temporary server waits for its disk, as one in production does. DATABASE_URL names another; its database is filled.

With --least, exit with code 1 if single enqueues of all threads with NOTIFY reach a smaller share of those without it
in each of five measurements: other work on the machine may disturb some of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests import postgres

from .database import set_up

COLUMNS = "id, task, queue, priority, args, kwargs, headers, max_attempts, run_at, enqueued_at, status"
MORE_MEASUREMENTS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--least", type=float)
    options = parser.parse_args()
    set_up()
    postgres.make_durable()
    import djqueue

    @djqueue.task(name="bench.nothing")
    def nothing(n: int) -> None: ...

    count = options.jobs
    bare = rate(count, lambda: bare_copy(count))
    ours = rate(count, lambda: nothing.enqueue_many(djqueue.call(n) for n in range(count)))
    print(f"bulk:   bare COPY {bare:>8.0f} jobs/s   enqueue_many {ours:>8.0f} jobs/s   ratio {ours / bare:.2f}")
    for threads in (1, options.threads):
        each = max(1, count // threads // (10 if threads == 1 else 1))
        results = with_and_without_notify(threads, each, nothing.enqueue)
        inserted = rate(each * threads, partial(spread, threads, each, bare_insert))
        print(
            f"single, {threads} threads: bare INSERT {inserted:>6.0f} jobs/s   enqueue {results[True]:>6.0f} jobs/s   "
            f"ratio {results[True] / inserted:.2f}   without NOTIFY {results[False]:>6.0f} jobs/s   "
            f"on/off {results[True] / results[False]:.2f}"
        )
    in_transactions = with_and_without_notify(threads, each, partial(in_transaction, nothing.enqueue))
    print(
        f"in a transaction each, {threads} threads: enqueue {in_transactions[True]:>6.0f} jobs/s   "
        f"without NOTIFY {in_transactions[False]:>6.0f} jobs/s   "
        f"on/off {in_transactions[True] / in_transactions[False]:.2f}"
    )
    for _ in range(MORE_MEASUREMENTS):
        if options.least is None or results[True] / results[False] >= options.least:
            sys.exit(0)
        results = with_and_without_notify(threads, each, nothing.enqueue)
        print(f"once more: on/off {results[True] / results[False]:.2f}")
    sys.exit(int(results[True] / results[False] < options.least))


def with_and_without_notify(threads: int, each: int, enqueue: Callable[[int], object]) -> dict[bool, float]:
    """Return the jobs per second with NOTIFY and without it."""
    from django.test import override_settings

    results = {}
    for notify in (True, False):
        with override_settings(DJQUEUE={"NOTIFY": notify}):
            results[notify] = rate(each * threads, partial(spread, threads, each, enqueue))
    return results


def rate(count: int, work: Callable[[], object]) -> float:
    """Return jobs per second, the best of three runs."""
    from django.db import connection

    best = float("inf")
    for _ in range(3):
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE djqueue_job")
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return count / best


def spread(threads: int, each: int, enqueue: Callable[[int], object]) -> None:
    from django.db import connections

    def run(_: int) -> None:
        for n in range(each):
            enqueue(n)
        connections.close_all()

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, range(threads)))


def in_transaction(enqueue: Callable[[int], object], n: int) -> None:
    from django.db import transaction

    with transaction.atomic():
        enqueue(n)


def values(n: int) -> list[object]:
    from django.utils import timezone

    from djqueue.core.uuid7 import uuid7

    now = timezone.now()
    return [uuid7(), "bench.nothing", "default", 1000, json.dumps([n]), "{}", "{}", 3, now, now, "pending"]


def bare_insert(n: int) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO djqueue_job ({COLUMNS}) VALUES ({', '.join(['%s'] * 11)})", values(n))


def bare_copy(count: int) -> None:
    from django.db import connection

    with connection.cursor() as cursor, cursor.copy(f"COPY djqueue_job ({COLUMNS}) FROM STDIN") as copy:
        for n in range(count):
            copy.write_row(values(n))


if __name__ == "__main__":
    main()
