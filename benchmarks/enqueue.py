"""Measure how fast jobs are created: compare `enqueue_many` with a plain COPY of the same rows, and single enqueues
with plain INSERTs, and with NOTIFY = False, in autocommit mode and in a transaction each.

    python -m benchmarks.enqueue [--jobs 50000] [--clients 1x1 1x8] [--seconds 2] [--rounds 3] [--least 0.9]

`--clients` says how many enqueue at once: 4x50 are 4 processes of 50 threads, with a connection each. The ways take
turns for so many seconds, because the speed of a machine changes within minutes. Figures are medians of the rounds.

The temporary server waits for its disk, as one in production does. DATABASE_URL names another; its database is filled.

With --least, only enqueues in autocommit mode are measured, and the exit code is 1 if with NOTIFY they reach a smaller
share of the rate without it in each of three measurements: other work on the machine may disturb some of them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median
from threading import Barrier
from typing import Any

from tests import postgres

from .database import set_up

COLUMNS = "id, task, queue, priority, args, kwargs, headers, max_attempts, run_at, enqueued_at, status"
PLAIN, ON, OFF = "bare INSERT", "enqueue", "without NOTIFY"
ON_IN_TRANSACTIONS, OFF_IN_TRANSACTIONS = "in a transaction each", "in transactions without NOTIFY"
SHARES = {PLAIN: "", OFF: PLAIN, ON: OFF, OFF_IN_TRANSACTIONS: "", ON_IN_TRANSACTIONS: OFF_IN_TRANSACTIONS}
Way = tuple[Callable[[int], object], bool]  # what to do, and NOTIFY
START_WITHIN = 60  # seconds
WARM_UP = 3.0  # seconds that are not counted
MEASUREMENTS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--clients", type=clients, nargs="+", default=[(1, 1), (1, 8)], metavar="PROCESSESxTHREADS")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--least", type=float)
    options = parser.parse_args()
    set_up()
    postgres.make_durable()
    allow_connections(max(processes * threads for processes, threads in options.clients))
    import djqueue

    @djqueue.task(name="bench.nothing")
    def nothing(n: int) -> None: ...

    single = {ON: (nothing.enqueue, True), OFF: (nothing.enqueue, False)}
    if options.least is not None:
        for each in options.clients:
            measured = (compare(*each, options.rounds, options.seconds, single) for _ in range(MEASUREMENTS))
            if not any(share >= options.least for share in measured):
                sys.exit(1)
        return
    count = options.jobs
    bare = rate(count, lambda: bare_copy(count))
    ours = rate(count, lambda: nothing.enqueue_many(djqueue.call(n) for n in range(count)))
    print(f"bulk: bare COPY {bare:.0f} jobs/s, enqueue_many {ours:.0f} jobs/s, ratio {ours / bare:.2f}")
    ways = {PLAIN: (bare_insert, True)} | single
    ways |= {
        ON_IN_TRANSACTIONS: (partial(in_transaction, nothing.enqueue), True),
        OFF_IN_TRANSACTIONS: (partial(in_transaction, nothing.enqueue), False),
    }
    for each in options.clients:
        compare(*each, options.rounds, options.seconds, ways)


def clients(text: str) -> tuple[int, int]:
    processes, threads = map(int, text.split("x"))
    return processes, threads


def allow_connections(clients: int) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SHOW max_connections")
        enough = int(cursor.fetchone()[0]) >= clients + 20
        if not enough and postgres.is_ours():
            cursor.execute(f"ALTER SYSTEM SET max_connections = {clients + 20}")
    connection.close()
    if not enough and postgres.is_ours():
        postgres.restart()


def compare(processes: int, threads: int, rounds: int, seconds: float, ways: dict[str, Way]) -> float:
    """Print the rates, and return the share that enqueues with NOTIFY reach of those without it."""
    names = [name for turn in range(rounds) for name in (ways if turn % 2 else reversed(ways))]
    counts = enqueued_by(processes, threads, seconds, [ways[name] for name in names])
    found = {way: median(n for name, n in zip(names, counts, strict=True) if name == way) / seconds for way in ways}
    print(f"{processes} processes of {threads} threads:")
    for way, base in SHARES.items():
        if way in found:
            share = f"{found[way] / found[base]:.2f} of {base}" if base in found else ""
            print(f"  {way:<30} {found[way]:>6.0f} jobs/s   {share}".rstrip(), flush=True)
    return found[ON] / found[OFF]


def enqueued_by(processes: int, threads: int, seconds: float, ways: Sequence[Way]) -> list[int]:
    """Return how many jobs so many processes and threads enqueue in each of these ways, one after the other."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE djqueue_job")
    connection.close()
    fork = multiprocessing.get_context("fork")
    ready, counts = fork.Barrier(processes), fork.SimpleQueue()
    children = [fork.Process(target=client, args=(threads, seconds, ways, ready, counts)) for _ in range(processes)]
    for child in children:
        child.start()
    found = [counts.get() for _ in children]
    for child in children:
        child.join()
    if [] in found:
        sys.exit("Some clients failed.")
    return [sum(column) for column in zip(*found, strict=True)]


def client(threads: int, seconds: float, ways: Sequence[Way], ready: Barrier, counts: Any) -> None:
    """Enqueue from so many threads, when all other processes are ready, too; report how many in each way."""
    from django.test import override_settings

    start = Barrier(threads + 1, ready.wait)
    found = [[0] * len(ways) for _ in range(threads)]
    turn, is_counting = 0, False

    def run(thread: int) -> None:
        from django.db import connection

        connection.ensure_connection()
        start.wait(START_WITHIN)
        n = 0
        while (now := turn) < len(ways):
            ways[now][0](n)
            n += 1
            found[thread][now] += is_counting
        connection.close()

    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(run, thread) for thread in range(threads)]
        try:
            start.wait(START_WITHIN)
            for _, notify in ways:
                with override_settings(DJQUEUE={"NOTIFY": notify}):
                    time.sleep(WARM_UP)
                    is_counting = True
                    time.sleep(seconds)
                    is_counting = False
                turn += 1
            for future in running:
                future.result()
        except Exception:
            turn = len(ways)
            counts.put([])
            raise
    counts.put([sum(column) for column in zip(*found, strict=True)])


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
