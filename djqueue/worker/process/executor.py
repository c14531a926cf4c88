"""Run one job: return its outcome as a settlement, and never raise what the task raises."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import connections

from djqueue import signals
from djqueue.core import registry
from djqueue.core.durations import seconds
from djqueue.core.log import logger
from djqueue.core.options import resolve
from djqueue.core.records import Settlement
from djqueue.current import CurrentJob, _current
from djqueue.exceptions import Cancelled, PermanentFailure, Retry, Snooze
from djqueue.lifecycle import announce, settle
from djqueue.lifecycle.claim import ClaimedJob
from djqueue.worker.os_process import end_if_forked

from .in_hand import Holding

HOME = os.getcwd()


def timeout_of(job: ClaimedJob) -> float | None:
    """Return the timeout of a job in seconds; None if it has none."""
    timeout = resolve("timeout", job.queue, registry.options(job.task), job.row.timeout)
    return None if timeout is None else seconds(timeout, "timeout")


def execute(holding: Holding) -> Settlement:
    """Run one claimed job of a plain function and return its outcome."""
    task = registry.find(holding.job.task)
    assert task is not None
    announce.started([holding.job])
    try:
        return call(task.func, holding)
    finally:
        clean_up(holding.job)


async def aexecute(holding: Holding) -> Settlement:
    """Run one claimed job of a coroutine function; its synchronous code has a thread of its own."""
    task = registry.find(holding.job.task)
    assert task is not None
    async with ThreadSensitiveContext() as context:
        if signals.job_started.receivers:
            await sync_to_async(announce.started)([holding.job])
        try:
            return await acall(task.func, holding)
        finally:
            if context in SyncToAsync.context_to_thread_executor:  # it ran synchronous code
                await sync_to_async(close_all)(holding.job)


def call(func: Callable[..., Any], holding: Holding) -> Settlement:
    """Call the function; never raises."""
    job = holding.job
    reset = _current.set(CurrentJob(holding))
    try:
        with end_if_forked():
            result = func(*job.args, **job.kwargs)
        return settle.ack(job, result)
    except BaseException as error:
        return failed(job, error)
    finally:
        _current.reset(reset)


async def acall(func: Callable[..., Any], holding: Holding) -> Settlement:
    """Await the coroutine; raises only when the worker itself is being stopped."""
    job = holding.job
    reset = _current.set(CurrentJob(holding))
    if holding.cancel_requested and (task := asyncio.current_task()):
        task.cancel()  # requested in an earlier attempt: raised at the first await, as in a running coroutine
    try:
        with end_if_forked():
            await job.aload()
            result = await func(*job.args, **job.kwargs)
        return settle.ack(job, result)
    except asyncio.CancelledError as error:
        if holding.cancel_requested:
            return settle.cancel(job)
        return failed(job, error)
    except BaseException as error:
        return failed(job, error)
    finally:
        _current.reset(reset)


def failed(job: ClaimedJob, error: BaseException) -> Settlement:
    """Return the outcome for what a task raised; an invalid one, such as a snooze into the past, is a failure."""
    try:
        return verdict(job, error)
    except Exception as nonsense:
        return settle.nack(job, nonsense)


def verdict(job: ClaimedJob, error: BaseException) -> Settlement:
    match error:
        case PermanentFailure():
            return settle.dead_letter(job, error)
        case Retry():
            return settle.nack(job, error, delay=error.delay)
        case Snooze():
            return settle.snooze(job, error.delay)
        case Cancelled():
            return settle.cancel(job)
    return settle.nack(job, error)


def clean_up(job: ClaimedJob) -> None:
    """Leave nothing of this job to the next one on this thread."""
    go_home(job)
    for connection in connections.all(initialized_only=True):
        connection.queries_log.clear()
        if connection.in_atomic_block or (connection.connection is not None and not connection.autocommit):
            logger.warning(
                "transaction left open, rolled back job=%s task=%s database=%s", job.id, job.task, connection.alias
            )
            drop(connection.alias)
        else:
            connection.close_if_unusable_or_obsolete()


def go_home(job: ClaimedJob) -> None:
    """Change back to the directory in which the process started: all its threads share it."""
    try:
        if os.getcwd() == HOME:
            return
    except OSError:  # it has been removed
        pass
    logger.warning("current directory changed, changed back job=%s task=%s", job.id, job.task)
    with suppress(OSError):  # the directory of an old release that a deployment has removed
        os.chdir(HOME)


def close_all(job: ClaimedJob) -> None:
    clean_up(job)
    connections.close_all()


def drop(alias: str) -> None:
    """Close a connection whose state is unknown; the next use makes a new one."""
    with suppress(Exception):
        wrapper: Any = connections[alias]
        wrapper._close()  # close() would wait for the end of a transaction that never ends
    del connections[alias]
