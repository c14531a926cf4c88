"""One job's run, as a straight line: its outcome is a settlement, and nothing it does is raised here."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections

from djqueue import registry, signals
from djqueue.current import CurrentJob, Holding, _current
from djqueue.exceptions import Cancelled, PermanentFailure, Retry, Snooze
from djqueue.lifecycle import announce, settle
from djqueue.lifecycle.claim import ClaimedJob
from djqueue.records import Settlement

logger = logging.getLogger("djqueue")

HOME = os.getcwd()


def execute(holding: Holding) -> Settlement:
    """Run one claimed job of a plain function and tell what became of it."""
    task = registry.find(holding.job.task)
    assert task is not None
    close_old_connections()
    announce.started([holding.job])
    try:
        return call(task.func, holding)
    finally:
        clean_up(holding.job)


async def aexecute(holding: Holding) -> Settlement:
    """Run one claimed job of a coroutine function; its synchronous parts have a thread of their own."""
    task = registry.find(holding.job.task)
    assert task is not None
    async with ThreadSensitiveContext() as context:
        if signals.job_started.receivers:
            await sync_to_async(announce.started)([holding.job])
        try:
            return await acall(task.func, holding)
        finally:
            if context in SyncToAsync.context_to_thread_executor:  # it has had synchronous parts
                await sync_to_async(close_all)(holding.job)


def call(func: Callable[..., Any], holding: Holding) -> Settlement:
    """Call the function; never raises."""
    job = holding.job
    reset = _current.set(CurrentJob(holding))
    try:
        return settle.ack(job, func(*job.args, **job.kwargs))
    except BaseException as error:
        return failed(job, error)
    finally:
        _current.reset(reset)


async def acall(func: Callable[..., Any], holding: Holding) -> Settlement:
    """Await the coroutine; raises only when the worker itself is being stopped."""
    job = holding.job
    reset = _current.set(CurrentJob(holding))
    try:
        return settle.ack(job, await func(*job.args, **job.kwargs))
    except asyncio.CancelledError as error:
        if holding.cancel_requested:
            return settle.cancel(job)
        return failed(job, error)
    except BaseException as error:
        return failed(job, error)
    finally:
        _current.reset(reset)


def failed(job: ClaimedJob, error: BaseException) -> Settlement:
    """What a task raised, as a verdict; one that makes no sense, such as a snooze into the past, is a failure."""
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
    """The current directory is the whole process's."""
    try:
        if os.getcwd() == HOME:
            return
    except OSError:  # it has been removed
        pass
    logger.warning("current directory changed, changed back job=%s task=%s", job.id, job.task)
    with suppress(OSError):  # an old release that a deploy has removed
        os.chdir(HOME)


def close_all(job: ClaimedJob) -> None:
    clean_up(job)
    connections.close_all()


def drop(alias: str) -> None:
    """Close a connection whose state is unknown; the next use makes a new one."""
    with suppress(Exception):
        wrapper: Any = connections[alias]
        wrapper._close()  # close() would leave it to a transaction that nobody ends
    del connections[alias]
