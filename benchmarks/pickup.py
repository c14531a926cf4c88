"""Measure how soon an idle worker starts a job, from just before the enqueue to the first line of the task, with and
without wake-ups in the same run; how late a delayed job starts; and how much one job costs ten idle workers.

    python -m benchmarks.pickup [--rounds 300] [--snapshot 180 [--most 20]]

With --snapshot, measure after that many seconds of 200 jobs/s during which a transaction stays open. With --most, exit
with code 1 if the p99 is higher than that many milliseconds in each of five measurements: other work on the machine may
disturb some of them.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from .database import set_up
from .workers import worker

if TYPE_CHECKING:
    from djqueue import JobHandle

# With --snapshot: jobs per second, and how many of them are in one measurement.
RATE, LAST = 200, 1000
MORE_MEASUREMENTS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--snapshot", type=float, default=0)
    parser.add_argument("--most", type=float, help="milliseconds")
    options = parser.parse_args()
    set_up()
    if options.snapshot:
        sys.exit(beside_a_snapshot(options.snapshot, options.most))
    with worker():
        show("with the wake-up", [pick_up() for _ in range(options.rounds)])
        show("a delay of 1 s, late by", [late() for _ in range(max(10, options.rounds // 10))])
    with worker(NOTIFY=False):
        show("by polling alone", [pick_up() for _ in range(max(10, options.rounds // 10))])
    among_idle_workers(10, max(20, options.rounds // 5))


def among_idle_workers(count: int, rounds: int) -> None:
    with ExitStack() as stack:
        workers = [stack.enter_context(worker()) for _ in range(count)]
        idle = -sum(running.statements() for running in workers)
        time.sleep(10)
        idle = (idle + sum(running.statements() for running in workers)) / 10
        before = [(running.statements(), running.claims()) for running in workers]
        start = time.monotonic()
        show(f"among {count} idle workers", [pick_up() for _ in range(rounds)])
        spent = idle * (time.monotonic() - start)
        statements = sum(running.statements() - was for running, (was, _) in zip(workers, before, strict=True)) - spent
        claims = sum(running.claims() - was for running, (_, was) in zip(workers, before, strict=True))
        print(
            f"  {claims / rounds:.1f} claims and {statements / rounds:.1f} statements per job; "
            f"{idle / count:.2f} statements/s per idle worker"
        )


def beside_a_snapshot(seconds: float, most: float | None) -> int:
    """Measure while a foreign transaction stays open, which keeps the index entries of all finished jobs.

    Return the exit code.
    """
    import psycopg
    from django.db import connection

    with worker(), psycopg.connect(**connection.get_connection_params() | {"context": None}) as other:
        show("before", [pick_up() for _ in range(100)])
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM djqueue_job")
        times = send_steadily(seconds)
        p99 = show("the last jobs", times)
        for _ in range(MORE_MEASUREMENTS):
            if most is None or p99 * 1000 <= most:
                return 0
            p99 = show("the next jobs", send_steadily(LAST / RATE))
        return int(most is not None and p99 * 1000 > most)


def send_steadily(seconds: float) -> list[float]:
    """Enqueue jobs at a steady rate, and return how soon the last ones started."""
    from .tasks import clock

    start, sent, handles = time.monotonic(), 0, []
    while (now := time.monotonic()) < start + seconds:
        if sent < (now - start) * RATE:
            handles = [*handles[1 - LAST :], (now, clock.enqueue())]
            sent += 1
        else:
            time.sleep(0.001)
    return [first_line_of(handle) - at for at, handle in handles]


def pick_up() -> float:
    from .tasks import clock

    time.sleep(random.uniform(0.02, 0.1))  # until the worker is idle again
    start = time.monotonic()
    return first_line_of(clock.enqueue()) - start


def late() -> float:
    from .tasks import clock

    due = time.monotonic() + 1
    return first_line_of(clock.using(delay=1).enqueue()) - due


def first_line_of(handle: JobHandle) -> float:
    """Poll for the result: a worker without notifications does not announce finished jobs either."""
    while (found := handle.job()) is None or found.status != "done":
        time.sleep(0.01)
    return float(found.result)


def show(name: str, seconds: list[float]) -> float:
    """Print the median and the p99, and return the p99."""
    ordered = sorted(seconds)
    median, late = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    print(
        f"{name:<24} median {median * 1000:7.1f} ms   p99 {late * 1000:7.1f} ms   of {len(ordered)}, "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return late


if __name__ == "__main__":
    main()
