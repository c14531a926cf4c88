"""Tasks for workers under test; what they did is told by their jobs and by kv."""

from __future__ import annotations

import asyncio
import sys
import time

from asgiref.sync import sync_to_async
from django.db import connections, transaction

import djqueue
from djqueue import kv
from djqueue.conf import config


@djqueue.task
def double(n: int) -> int:
    return 2 * n


@djqueue.task
async def adouble(n: int) -> int:
    await asyncio.sleep(0.001)
    return 2 * n


@djqueue.task
async def acount(key: str) -> int:
    """Uses the ORM's thread from a coroutine."""
    return await sync_to_async(lambda: kv.get(key, 0))()


@djqueue.task(retry=djqueue.Fixed(0))
def fail_until(attempt: int) -> str:
    if djqueue.current_job().attempt < attempt:
        raise ValueError(f"not yet {djqueue.current_job().attempt}")
    return "at last"


@djqueue.task(retry=djqueue.Fixed(0))
def raise_it(name: str) -> None:
    match name:
        case "permanent":
            raise djqueue.PermanentFailure("never")
        case "retry":
            raise djqueue.Retry(delay=3600)
        case "snooze":
            raise djqueue.Snooze(3600)
        case "cancelled":
            raise djqueue.Cancelled
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt


@djqueue.task
def return_unstorable() -> object:
    return object()


@djqueue.task
def look_at_itself() -> list[object]:
    job = djqueue.current_job()
    return [str(job.id), job.task, job.queue, job.attempt, job.max_attempts, job.headers, job.cancel_requested]


@djqueue.task
def work_in_steps(steps: int, pause: float) -> str:
    job = djqueue.current_job()
    for step in range(steps):
        job.progress(step, steps, "working")
        job.raise_if_cancelled()
        time.sleep(pause)
    return "ran to its end"


@djqueue.task
async def asleep(seconds: float) -> str:
    kv_set = sync_to_async(kv.set)
    await kv_set("asleep", True)
    await asyncio.sleep(seconds)
    return "slept"


@djqueue.task
def spin() -> None:
    while True:
        pass


@djqueue.task
def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@djqueue.task
def leave_a_transaction_open() -> None:
    transaction.atomic(using=config().database).__enter__()
    kv.set("left", "open")


@djqueue.task
def close_the_connection() -> None:
    connections[config().database].close()


@djqueue.task
def overlap(key: str, seconds: float) -> int:
    """How many of these ran at once, by its own count."""
    while not kv.compare_and_set(key, now := kv.get(key), (now or 0) + 1):
        pass
    time.sleep(seconds)
    while not kv.compare_and_set(key, now := kv.get(key), now - 1):
        pass
    return now
