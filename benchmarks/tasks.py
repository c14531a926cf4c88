"""The tasks of the benchmarks."""

from __future__ import annotations

import os
import time

from django.db import connection

import djqueue


@djqueue.task
def nothing(n: int = 0) -> None: ...


@djqueue.task
def clock() -> float:
    """Return when the first line ran, by the clock that all processes of a machine share."""
    return time.monotonic()


def take(seconds: float) -> float:
    """Return when it started, by the clock of the machine, after so many seconds."""
    started = time.time()
    time.sleep(seconds)
    return started


@djqueue.task
def short(seconds: float) -> float:
    return take(seconds)


@djqueue.task
def medium(seconds: float) -> float:
    return take(seconds)


@djqueue.task
def long(seconds: float) -> float:
    return take(seconds)


@djqueue.task
def counted(seconds: float) -> float:
    """Note the run in the file BENCHMARK_RUNS, with a database connection as most tasks have, and return its start."""
    started = time.time()
    with open(os.environ["BENCHMARK_RUNS"], "ab", buffering=0) as runs:
        runs.write(djqueue.current_job().id.bytes)  # one append, which is atomic
    connection.ensure_connection()
    time.sleep(seconds)
    return started


@djqueue.task(limit=djqueue.Limit("bounded:{key}", concurrency=1_000_000))
def bounded(key: object, n: int = 0) -> None: ...
