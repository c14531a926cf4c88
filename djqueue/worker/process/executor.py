"""Run one job: return its outcome as a settlement, and never raise what the task raises."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from djqueue import signals
from djqueue.conf import config
from djqueue.core import registry
from djqueue.core.durations import seconds
from djqueue.core.log import logger
from djqueue.core.options import resolve
from djqueue.core.records import Settlement
from djqueue.current import CurrentJob, _current
from djqueue.exceptions import Cancelled, PermanentFailure, Retry, Snooze, TaskTimeout, Throttled
from djqueue.lifecycle import announce, settle, unknown_tasks
from djqueue.lifecycle.claim import ClaimedJob
from djqueue.states import Verdict
from djqueue.worker.os_process import end_if_forked, is_current_directory

from . import around
from .in_hand import UNKNOWN, Holding, Kind

HOME = os.getcwd()
NOT_OF_TASKS = ("djqueue.worker.", "djqueue.contrib.")  # modules whose frames are left out of tracebacks

Within = Callable[[Callable[[], Any]], Any]  # calls a function, and raises TaskTimeout in it if it runs too long


def kind_of(job: ClaimedJob) -> Kind:
    """Return what this job has in common with others of its task and queue."""
    task = registry.find(job.task) or unknown_tasks.imported(job)
    if task is None:
        return UNKNOWN
    timeout = resolve("timeout", job.queue, registry.options(job.task))
    limit = None if timeout is None else seconds(timeout, "timeout")
    return Kind(task.func, inspect.iscoroutinefunction(task.func), limit)


def timeout_of(holding: Holding) -> float | None:
    """Return the timeout of a job in seconds; None if it has none."""
    own = holding.job.row.timeout
    return holding.kind.timeout if own is None else seconds(own, "timeout")


def execute(holding: Holding, within: Within | None = None) -> Settlement:
    """Run one claimed job of a plain function and return its outcome."""
    if signals.job_started.receivers:
        announce.started([holding.job])
    try:
        settlement = call(holding, within)
        if settlement.verdict is not Verdict.ACK:
            _note_all_opened()
        return settlement
    finally:
        clean_up(holding.job)


async def aexecute(holding: Holding, timeout: float | None) -> Settlement:
    """Run one claimed job of a coroutine function; its synchronous code has a thread of its own."""
    async with ThreadSensitiveContext() as context:
        if signals.job_started.receivers:
            await undisturbed(sync_to_async(announce.started)([holding.job]))
        try:
            return await acall(holding, timeout)
        finally:
            if context in SyncToAsync.context_to_thread_executor:  # it ran synchronous code
                await undisturbed(sync_to_async(close_all)(holding.job))


async def undisturbed(work: Coroutine[Any, Any, None]) -> None:
    """Await to the end what is not the task's own code: a cancel request does not end it, or connections would leak."""
    future = asyncio.ensure_future(work)
    while not future.done():
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError:
            if current := asyncio.current_task():
                current.uncancel()
    future.result()


def call(holding: Holding, within: Within | None = None) -> Settlement:
    """Call the function of the task; never raises."""
    job, func = holding.job, holding.kind.func
    assert func is not None
    reset = _current.set(current := CurrentJob(holding))

    def own_code() -> Any:
        with end_if_forked():
            return func(*job.args, **job.kwargs)

    try:
        work = partial(around.call, current, own_code) if config().around else own_code
        return settle.ack(job, within(work) if within else work())
    except BaseException as error:
        return failed(holding, error)
    finally:
        _current.reset(reset)


async def acall(holding: Holding, timeout: float | None) -> Settlement:
    """Await the coroutine of the task; never raises."""
    job, func = holding.job, holding.kind.func
    assert func is not None
    reset = _current.set(current := CurrentJob(holding))
    if holding.cancel_requested and (task := asyncio.current_task()):
        task.cancel()  # requested before it started: raised at the first await, as in a running coroutine

    async def own_code() -> Any:
        with end_if_forked():
            await job.aload()
            return await func(*job.args, **job.kwargs)

    try:
        work = partial(around.acall, current, own_code) if config().around else own_code
        return settle.ack(job, await awithin(timeout, work))
    except asyncio.CancelledError as error:
        if holding.cancel_requested:
            return settle.cancel(job)
        return failed(holding, error)
    except BaseException as error:
        return failed(holding, error)
    finally:
        _current.reset(reset)


async def awithin(seconds: float | None, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Await the coroutine; raise TaskTimeout if it ran into its timeout, whatever it made of being cancelled."""
    if seconds is None:
        return await work()
    try:
        async with asyncio.timeout(seconds) as limit:
            result = await work()
    except BaseException as error:
        if limit.expired():
            raise TaskTimeout from error
        raise
    if limit.expired():
        raise TaskTimeout
    return result


def failed(holding: Holding, error: BaseException) -> Settlement:
    """Return the outcome for what a task raised; an invalid one, such as a snooze into the past, is a failure."""
    holding.error = error.with_traceback(task_frames(error.__traceback__))
    decision, holding.decision = holding.decision, None  # its traceback refers to this holding
    try:
        if decision is None or decision[0] is not error:  # a hook in AROUND may have raised another
            return verdict(holding.job, error)
        if (delay := decision[1]) is None:
            return settle.dead_letter(holding.job, error)
        return settle.nack(holding.job, error, delay=delay)
    except Exception as nonsense:
        holding.error = nonsense
        return settle.nack(holding.job, nonsense)


def task_frames(raised: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames of the worker; all of it if there are no others."""
    frame = raised
    while frame is not None and frame.tb_frame.f_globals.get("__name__", "").startswith(NOT_OF_TASKS):
        frame = frame.tb_next
    return frame or raised


def verdict(job: ClaimedJob, error: BaseException) -> Settlement:
    match error:
        case PermanentFailure():
            return settle.dead_letter(job, error)
        case Retry():
            return settle.nack(job, error, delay=error.delay)
        case Throttled():
            return settle.throttle(job, error.delay)
        case Snooze():
            return settle.snooze(job, error.delay)
        case Cancelled():
            return settle.cancel(job)
    return settle.nack(job, error)


def clean_up(job: ClaimedJob) -> None:
    """Leave nothing of this job to the next one on this thread."""
    go_home(job)
    for connection in list(vars(_opened).values()):
        connection.queries_log.clear()
        if connection.in_atomic_block or (connection.connection is not None and not connection.autocommit):
            logger.warning(
                "transaction left open, rolled back job=%s task=%s database=%s", job.id, job.task, connection.alias
            )
            drop(connection.alias)
        else:
            connection.close_if_unusable_or_obsolete()


# The connections that were opened in this thread, by alias. To ask Django for them takes as long as a short job.
_opened = threading.local()


def _note_opened(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    if connection in connections.all(initialized_only=True):  # else a task has made one beside that of the alias
        setattr(_opened, connection.alias, connection)


connection_created.connect(_note_opened, weak=False)


def _note_all_opened() -> None:
    """Note what the signal may have missed: if a receiver of the project raises, the others are not called."""
    for connection in connections.all(initialized_only=True):
        setattr(_opened, connection.alias, connection)


def go_home(job: ClaimedJob) -> None:
    """Change back to the directory in which the process started: all its threads share it."""
    if is_current_directory(HOME):
        return
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
    vars(_opened).pop(alias, None)
