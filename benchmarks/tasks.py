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
