"""The tasks of the soak test. Each notes its start and its end in the ledger of its process."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import djqueue
from djqueue.current import CurrentJob

from .ledger import Ledger

AT_ONCE = 2  # of `limited`, per key
_ledgers: list[Ledger] = []


class ExpectedError(Exception):
    """A task failed because it was asked to."""


def ledger() -> Ledger:
    """Return the ledger of this process, which may have been forked after the last call."""
    if not _ledgers or _ledgers[-1].pid != os.getpid():
        _ledgers[:] = [Ledger("runs")]
    return _ledgers[-1]


@contextmanager
def noted(key: str = "") -> Iterator[CurrentJob]:
    job = djqueue.current_job()
    ledger().write("start", job.id, job.attempt, key)
    try:
        yield job
    except BaseException as error:
        ledger().write("end", job.id, job.attempt, type(error).__name__)
        raise
    ledger().write("end", job.id, job.attempt, "")


@djqueue.task
def quick() -> None:
    with noted():
        pass


@djqueue.task
def slow(seconds: float) -> None:
    with noted():
        time.sleep(seconds)


@djqueue.task
def flaky(failures: int) -> None:
    """Fail in the first attempts."""
    with noted() as job:
        if job.attempt <= failures:
            raise ExpectedError


@djqueue.task(max_attempts=2)
def dying() -> None:
    with noted():
        raise ExpectedError


@djqueue.task
def patient(seconds: float) -> None:
    """Wait for a cancel."""
    with noted() as job:
        job.wait_for_cancel(seconds)
        job.raise_if_cancelled()


@djqueue.task(limit=djqueue.Limit("soak:{key}", concurrency=AT_ONCE))
def limited(key: int, seconds: float) -> None:
    with noted(f"soak:{key}"):
        time.sleep(seconds)


@djqueue.task
async def coroutine(seconds: float) -> None:
    with noted():
        await asyncio.sleep(seconds)
