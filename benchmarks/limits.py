"""Measure what limits cost: drains of jobs with and without limit keys by turns, and how exact a rate is.

python -m benchmarks.limits [--jobs 10000] [--rounds 3] [--seconds 30] [--depth 1000000]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

from .database import set_up
from .worker import committed, is_busy, run, show
from .workers import Running, worker

RATES = ("20/s", "200/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--depth", type=int, default=0, help="measure claims and admissions beside so many blocked jobs"
    )
    parser.add_argument("--only-rates", action="store_true")
    parser.add_argument("--seconds", type=int, default=30, help="how long a rate is observed; 0 for not at all")
    options = parser.parse_args()
    set_up()
    if options.depth:
        measure_depth(options.depth)
        return
    import djqueue

    from .tasks import bounded, nothing

    bounds: dict[str, tuple[int, Callable[[int], djqueue.Call]]] = {
        "no limit": (0, lambda n: nothing.call(n)),
        "1 key, 200 at once": (200, lambda n: bounded.call("one", n)),
        "1,000 keys, 5 at once": (5, lambda n: bounded.call(n % 1000, n)),
        "1 key, 20 at once": (20, lambda n: bounded.call("one", n)),
    }
    found: dict[str, list[float]] = {name: [] for name in bounds}
    with worker("--threads", "4", "-v", "1") as running:
        for _ in range(0 if options.only_rates else options.rounds):
            for name, (concurrency, call) in bounds.items():
                keys = {f"bounded:{n}" for n in ("one", *range(1000))} if concurrency else set()
                set_numbers(keys, concurrency)
                found[name].append(drain(running, name, (call(n) for n in range(options.jobs)), options.jobs))
        for name, rates in found.items() if not options.only_rates else ():
            free = statistics.median(found["no limit"])
            print(f"{name:<24} {statistics.median(rates):>8.0f} jobs/s   {statistics.median(rates) / free:.2f}")
        for rate in RATES if options.seconds else ():
            observe_rate(rate, options.seconds)


def measure_depth(depth: int) -> None:
    """Measure claims and admissions of a hundred jobs, alone and beside many blocked jobs of one key, or of many."""
    from tests.fill import fill

    fillings = {
        "alone": lambda: None,
        f"{depth:,} blocked jobs of one key": lambda: fill(
            "djqueue_job", depth, status="'blocked'", limit_key="'deep'"
        ),
        f"{depth:,} keys": lambda: fill("djqueue_job", depth, status="'blocked'", limit_key="'deep-' || n"),
    }
    for name, filling in fillings.items():
        run("TRUNCATE djqueue_job")
        filling()
        run("VACUUM ANALYZE djqueue_job")
        found = [_claim_and_admit() for _ in range(20)]
        claim, admission, deep, settle = (statistics.median(column) * 1000 for column in zip(*found, strict=True))
        print(
            f"{name:<36} claim {claim:6.2f} ms   admit {admission:6.2f} ms   look at the deep key {deep:6.2f} ms   "
            f"settle and hand on {settle:6.2f} ms",
            flush=True,
        )


def _claim_and_admit() -> tuple[float, float, float, float]:
    import djqueue
    from djqueue.lifecycle.admit import admit_keys
    from djqueue.lifecycle.settle import ack, settle_many

    from .tasks import bounded

    bounded.using(queue="measured").enqueue_many([djqueue.call("measured", n) for n in range(100)])
    clock = [time.perf_counter()]
    admit_keys(["bounded:measured"])
    clock.append(time.perf_counter())
    jobs = djqueue.Queue("measured").claim(100)
    clock.append(time.perf_counter())
    assert len(jobs) == 100
    admit_keys(["deep", "deep-500000"])
    clock.append(time.perf_counter())
    settle_many([ack(job) for job in jobs])
    admit_keys(["bounded:measured"], freed=True)
    clock.append(time.perf_counter())
    admission, claim, deep, settle = (after - before for before, after in pairwise(clock))
    return claim, admission, deep, settle


def set_numbers(keys: set[str], concurrency: int) -> None:
    from djqueue.models import LimitKey
    from djqueue.sql import statements

    now = statements().now()
    rows = [LimitKey(key=key, concurrency=concurrency, admitted_at=now) for key in keys]
    fields = ["concurrency"]
    LimitKey.objects.bulk_create(rows, update_conflicts=True, unique_fields=["key"], update_fields=fields)


def drain(running: Running, name: str, calls: Iterator[object], jobs: int) -> float:
    """Measure the time from resuming a paused queue until it is empty."""
    import djqueue

    queue = djqueue.Queue("default")
    queue.pause()
    djqueue.enqueue_many(calls)  # type: ignore[arg-type]
    run("VACUUM ANALYZE djqueue_job")
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
    show(name, jobs, took, statements, committed() - commits - polls, cpu)
    return jobs / took


def observe_rate(rate: str, seconds: int) -> None:
    """Count the jobs that start within the time, without the burst at its beginning."""
    import djqueue
    from djqueue.models import DoneJob, Job

    from .tasks import bounded

    per_second = int(rate.partition("/")[0])
    djqueue.limits.set("bounded:rate", rate=rate)
    djqueue.enqueue_many([bounded.call("rate", n) for n in range(per_second * (seconds + 10))])
    time.sleep(2)
    started = DoneJob.objects.filter(limit_key="bounded:rate")
    before, start = started.count(), time.perf_counter()
    time.sleep(seconds)
    after, took = started.count(), time.perf_counter() - start
    found = (after - before) / took
    print(f"rate {rate:<8} {found:8.2f}/s over {took:.0f} s: {found / per_second:.3f} of the asked one", flush=True)
    Job.objects.filter(limit_key="bounded:rate").delete()


if __name__ == "__main__":
    main()
