"""Measure how soon an idle worker starts a job, from just before the enqueue to the first line of the task, with and
without wake-ups in the same run; how late a delayed job starts; and how much one job costs ten idle workers.

    python -m benchmarks.pickup [--rounds 300] [--snapshot 180]

With --snapshot, also measure after that many seconds of 200 jobs/s during which a transaction stays open.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from .database import set_up
from .workers import worker

if TYPE_CHECKING:
    from djqueue import JobHandle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--snapshot", type=float, default=0)
    options = parser.parse_args()
    set_up()
    if options.snapshot:
        beside_a_snapshot(options.snapshot)
        return
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


def beside_a_snapshot(seconds: float, rate: float = 200) -> None:
    """Measure while a foreign transaction stays open, which keeps the index entries of all finished jobs."""
    import psycopg
    from django.db import connection

    from .tasks import clock

    with worker(), psycopg.connect(**connection.get_connection_params() | {"context": None}) as other:
        show("before", [pick_up() for _ in range(100)])
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM djqueue_job")
        start, sent, handles = time.monotonic(), 0, []
        while (now := time.monotonic()) < start + seconds:
            if sent < (now - start) * rate:
                handles = [*handles[-1000:], (now, clock.enqueue())]
                sent += 1
            else:
                time.sleep(0.001)
        time.sleep(1)
        show(f"the last of {sent}", [first_line_of(handle) - at for at, handle in handles])


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


def show(name: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    median, late = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    print(
        f"{name:<24} median {median * 1000:7.1f} ms   p99 {late * 1000:7.1f} ms   of {len(ordered)}, "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
