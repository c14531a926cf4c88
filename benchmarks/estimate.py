"""Replay jobs of three tasks with a real worker, estimate the starts of some while they wait, and compare with the real
starts: how many of them are within p50 and p90, and how wide that is.

python -m benchmarks.estimate [--jobs 5000] [--threads 4] [--order mixed|short-first|long-first] [--beside 2000]

Run times are 1 ms, 10 ms and 100 ms, with a log-normal spread of a factor of two. With --beside, another queue of the
same worker has so many jobs.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .database import set_up
from .workers import worker

if TYPE_CHECKING:
    from uuid import UUID

    import djqueue

MEANS = {"short": 0.001, "medium": 0.01, "long": 0.1}
SPREAD = math.log(2)
WARM_UP = 150
EVERY = 0.2  # seconds between two samples
ORDERS = {
    "mixed": lambda _: random.random(),
    "short-first": lambda name: MEANS[name],
    "long-first": lambda name: -MEANS[name],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--threads", default="4")
    parser.add_argument("--order", choices=ORDERS, default="mixed")
    parser.add_argument("--beside", type=int, default=0, help="jobs of another queue")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    set_up()
    with worker("--threads", options.threads, "-v", "1"):
        enqueue(WARM_UP, "mixed")
        while is_busy():
            time.sleep(0.1)
        if options.beside:
            enqueue(options.beside, "mixed", queue="beside")
        start = time.time()
        ids = enqueue(options.jobs, options.order)
        taken = sample(ids)
        while is_busy():
            time.sleep(0.1)
        took = time.time() - start
    print(f"{options.jobs} jobs, {options.order}, {options.threads} threads: {options.jobs / took:.0f} jobs/s")
    report(taken)


def enqueue(count: int, order: str, queue: str = "default") -> list[UUID]:
    import djqueue

    from . import tasks

    names = sorted((random.choice([*MEANS]) for _ in range(count)), key=ORDERS[order])
    calls = [
        getattr(tasks, name).call(MEANS[name] * random.lognormvariate(0, SPREAD)).using(queue=queue) for name in names
    ]
    return [handle.id for handle in djqueue.enqueue_many(calls)]


def sample(ids: Sequence[UUID]) -> list[tuple[UUID, float, djqueue.Estimate]]:
    """Estimate the start of one random waiting job after the other until none waits."""
    import djqueue
    from djqueue.models import Job

    taken, spent = [], []
    waiting = {*ids}
    while waiting:
        waiting = set(Job.objects.filter(status="pending", queue="default").values_list("pk", flat=True))
        for job in random.sample(sorted(waiting), min(5, len(waiting))):
            at = time.time()
            taken.append((job, at, djqueue.estimate(job)))
            spent.append(time.time() - at)
        time.sleep(EVERY)
    print(f"one estimate takes {1000 * middle(sorted(spent)):.1f} ms, at most {1000 * max(spent):.1f} ms")
    return taken


def report(taken: Sequence[tuple[UUID, float, djqueue.Estimate]]) -> None:
    """Print how many real starts were within the estimates."""
    from djqueue.models import DoneJob

    starts = dict(DoneJob.objects.filter(pk__in=[job for job, _, _ in taken]).values_list("pk", "result"))
    known = [
        (starts[job] - at, estimate.p50, estimate.p90)
        for job, at, estimate in taken
        if estimate.p50 is not None and estimate.p90 is not None and job in starts and starts[job] >= at
    ]
    within = [sum(real <= row[place] for real, *row in known) / len(known) for place in range(2)]
    early = sorted((p50 - real) / max(real, 0.1) for real, p50, _ in known)
    off = sorted(map(abs, early))
    width = sorted(p90 / max(p50, 0.1) for _, p50, p90 in known)
    print(f"{len(taken)} estimates, {len(known)} with times")
    print(f"p50 covers {within[0]:.0%} and p90 {within[1]:.0%} of the real starts")
    print(f"in the median, p50 is off by {middle(off):.0%} (signed: {middle(early):+.0%})")
    print(f"in the median, p90 is {middle(width):.2f} times p50")


def middle(values: Sequence[float]) -> float:
    return values[len(values) // 2]


def is_busy() -> bool:
    from djqueue.models import Job

    return Job.objects.exists()


if __name__ == "__main__":
    main()
