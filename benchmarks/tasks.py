"""The tasks of the benchmarks."""

from __future__ import annotations

import time

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
