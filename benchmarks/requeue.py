"""Measure how much a requeue of many dead jobs from the terminal slows down a worker that drains no-op jobs meanwhile.

python -m benchmarks.requeue [--delete] [--dead 100000] [--threads 4] [--seconds 10] [--rounds 1]

The worker consumes the queue "work", which never runs empty; the dead jobs are requeued to another one, so that every
job that ends was claimed beside the requeue. The rate is measured before the requeue, and then in turns while the
command runs and while it is stopped (SIGSTOP), until it is finished: the ratio compares turns that follow each other,
so that other work on the machine hardly affects it.

With --delete, the dead jobs are deleted instead, by `djqueue sweep`.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from benchmarks.database import set_up

STOCK = 200_000  # pending jobs of the worker
REQUEUE = ["requeue", "--queue", "dead", "--yes"]
DELETE = ["sweep", "--queue", "dead", "--dead-older-than", "1h", "--yes"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delete", action="store_true")
    parser.add_argument("--dead", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    set_up()

    from benchmarks.workers import worker

    ratios = []
    with worker("--queue", "work", "--threads", str(options.threads)):
        for number in range(1, options.rounds + 1):
            ratios.append(measure(number, options))
    print(f"ratio: {statistics.median(ratios):.2f} (must be above 0.8)")


def measure(number: int, options: argparse.Namespace) -> float:
    prepare(options.dead)
    before = rate(options.seconds)
    during, stopped, seconds = rates_during(DELETE if options.delete else REQUEUE, options.dead, options.seconds)
    ratio = during / stopped
    done = "deleted" if options.delete else "requeued"
    print(
        f"round {number}: {before:,.0f} jobs/s before, {during:,.0f} during, {stopped:,.0f} while it is stopped: "
        f"ratio {ratio:.2f}; {options.dead:,} jobs {done} in {seconds:.1f} s ({options.dead / seconds:,.0f}/s)",
        flush=True,
    )
    return ratio


def prepare(dead: int) -> None:
    """Fill the tables, and give the worker time to become steady."""
    from django.db import connection

    from djqueue.models import DeadJob, Job
    from tests.fill import fill

    Job.objects.filter(queue="dead").delete()
    nothing = "'benchmarks.tasks.nothing'"
    error = """'{"attempt":3,"message":"boom","traceback":"' || repeat('x', 500) || E'"}\\n'"""
    failed_at = "now() - interval '1 day'"
    fill("djqueue_deadjob", dead, queue="'dead'", task=nothing, failed_at=failed_at, last_error="'boom'", errors=error)
    assert DeadJob.objects.count() == dead
    top_up()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    time.sleep(2)


def top_up() -> None:
    """Add pending jobs, so that the worker always has some."""
    from djqueue.models import Job
    from tests.fill import fill

    missing = STOCK - Job.objects.filter(queue="work").count()
    if missing > STOCK / 2:
        fill("djqueue_job", missing, queue="'work'", task="'benchmarks.tasks.nothing'", status="'pending'")


def rate(seconds: float) -> float:
    """Return how many jobs per second end."""
    start, first = time.monotonic(), ended()
    time.sleep(seconds)
    return counted(first, start)


def rates_during(command: list[str], dead: int, seconds: float) -> tuple[float, float, float]:
    """Requeue or delete the dead jobs with the real command.

    Return the rates while it runs and while it is stopped, and how many seconds it ran.
    """
    from djqueue.models import DeadJob, Job

    process = subprocess.Popen([sys.executable, "-m", "benchmarks.manage", "djqueue", *command], env=os.environ.copy())
    wait_until(lambda: DeadJob.objects.count() < dead or process.poll() is not None)  # not while Python starts
    jobs, spent = {True: 0, False: 0}, {True: 0.0, False: 0.0}
    running = True
    while process.poll() is None:
        start, first = time.monotonic(), ended()
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        jobs[running] += ended() - first
        spent[running] += time.monotonic() - start
        if not running:
            top_up()
        running = not running
        process.send_signal(signal.SIGCONT if running else signal.SIGSTOP)
    if process.returncode != 0:
        raise SystemExit(f"the command failed with code {process.returncode}")
    assert not DeadJob.objects.exists()
    assert Job.objects.filter(queue="dead").count() == (dead if command is REQUEUE else 0)
    assert Job.objects.filter(queue="work", status="pending").exists(), "the worker ran out of jobs"
    return jobs[True] / spent[True], jobs[False] / spent[False], spent[True]


def ended() -> int:
    from django.db.models import Sum

    from djqueue.models import Throughput

    return int(Throughput.objects.aggregate(total=Sum("done"))["total"] or 0)


def counted(first: int, start: float) -> float:
    return (ended() - first) / (time.monotonic() - start)


def wait_until(look: Callable[[], bool]) -> None:
    while not look():
        time.sleep(0.02)


if __name__ == "__main__":
    main()
