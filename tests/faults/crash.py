"""Kills a worker process at a named point between the claim and the settlement of its first jobs, once.

DJQUEUE_TEST_CRASH is the name of the point, DJQUEUE_TEST_CRASHED the file that notes that it has happened.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from djqueue.lifecycle import settle
from djqueue.worker.process import claimer, executor

POINTS = (
    "after the claim",
    "before the run",
    "in the run",
    "after the run",
    "before the flush",
    "after the flush",
)


def crash(point: str) -> None:
    if os.environ.get("DJQUEUE_TEST_CRASH") != point:
        return
    try:
        os.close(os.open(os.environ["DJQUEUE_TEST_CRASHED"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def crashing(function: Callable[..., Any], before: str | None, after: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if before:
            crash(before)
        answer = function(*args, **kwargs)
        if answer:  # a claim that has found something
            crash(after)
        return answer

    return call


if "DJQUEUE_TEST_CRASH" in os.environ:
    claimer.claim = crashing(claimer.claim, None, "after the claim")
    executor.execute = crashing(executor.execute, "before the run", "after the run")
    settle.settle_many = crashing(settle.settle_many, "before the flush", "after the flush")
