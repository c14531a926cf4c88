"""Tasks of `django.tasks` as djqueue runs them: the context, Django's signals, and the rule for return values."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.dispatch import Signal
from django.utils.module_loading import import_string

from djqueue.conf import config
from djqueue.core import registry
from djqueue.core.durations import Duration
from djqueue.core.options import TaskOptions
from djqueue.core.payload import encode_result
from djqueue.core.records import JobRecord
from djqueue.current import _current
from djqueue.exceptions import DjqueueError, InvalidPayload, TaskControl
from djqueue.lifecycle.announce import claimed_record

from .compat import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskContext,
    TaskResult,
    TaskResultStatus,
    is_task,
    log_task_finished,
    log_task_started,
    task_backends,
    task_finished,
    task_started,
)
from .results import plain, result_of, to_djqueue
from .task import set_options

OF_A_TASK = ("max_attempts", "retry", "timeout", "lease", "dedup_until", "on_dead", "sensitive")


class Runnable:
    """A Task in the form that djqueue's registry requires."""

    def __init__(self, task: Task[..., Any], name: str) -> None:
        self.task = task
        self.name = name
        self.func = _with_rules(task)

    @functools.cached_property
    def options(self) -> TaskOptions:
        """The task's options, then those of its backend."""
        defaults: dict[str, Any] = getattr(self.task.get_backend(), "task_defaults", dict)()
        own = set_options(self.task, OF_A_TASK)
        return TaskOptions(queue=self.task.queue_name, priority=to_djqueue(self.task.priority), **{**defaults, **own})

    def is_watched(self) -> bool:
        """Return whether task_finished has other receivers than Django's own, which logs."""
        return _is_watched(task_finished, log_task_finished)

    def finished(self, record: JobRecord, error: BaseException | None) -> None:
        """Send task_finished. Django's receiver logs the exception that is being handled: `error`, if it is known."""
        result = result_of(record, self.task)
        if result.status != TaskResultStatus.FAILED:
            task_finished.send_robust(_sender(result), task_result=result)
            return
        error = error or DjqueueError(record.last_error or f"The job is {record.status}.")
        frames = error.__traceback__
        try:
            raise error
        except BaseException:
            error.__traceback__ = frames  # without this function
            task_finished.send_robust(_sender(result), task_result=result)


def register(task: Task[..., Any], name: str | None = None) -> Runnable:
    """Make a task known to djqueue. The first Task of a function counts: `using()` makes others for single calls."""
    name = name or task.module_path
    known = registry.registered(name)
    if isinstance(known, Runnable) and known.task.func is task.func:
        return known
    made = Runnable(task, name)
    registry.register(made, observer=made)
    return made


def import_task(path: str) -> Runnable:
    """Return the task at a path. Raise ImportError or InvalidTask if there is none: nothing else is ever called."""
    found = import_string(path)
    if not is_task(found):
        raise InvalidTask(f"{path} is not a Task of django.tasks (it is a {type(found).__name__}), and is not called.")
    return register(found, path)


def task_of(record: JobRecord) -> Task[..., Any] | None:
    """Return the Task of a job as it is declared; None if it is a job of another kind."""
    found = registry.find_or_import(record.task, record.headers)
    return found.task if isinstance(found, Runnable) else None


def _with_rules(task: Task[..., Any]) -> Callable[..., Any]:
    """Return the function that a worker calls."""
    func = task.func
    if inspect.iscoroutinefunction(func):

        @functools.wraps(func)
        async def run(*args: Any, **kwargs: Any) -> Any:
            result = _running(task)
            if result is not None:
                await _asend_started(result)
            with _back_off(task, result):
                value = await func(*_context(task, result), *args, **kwargs)
            return _accepted(value)

    else:

        @functools.wraps(func)
        def run(*args: Any, **kwargs: Any) -> Any:
            result = _running(task)
            if result is not None:
                task_started.send_robust(_sender(result), task_result=result)
            with _back_off(task, result):
                value = func(*_context(task, result), *args, **kwargs)
            return _accepted(value)

    if task.takes_context:
        signature = inspect.signature(func)
        run.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return run


def _running(task: Task[..., Any]) -> TaskResult[..., Any] | None:
    """Return the result of the current job, without a query; None outside of a worker."""
    current = _current.get()
    return None if current is None else result_of(claimed_record(current._held.job), task)


def _context(task: Task[..., Any], result: TaskResult[..., Any] | None) -> list[TaskContext[..., Any]]:
    if not task.takes_context:
        return []
    if result is None:
        raise DjqueueError(f"{task.module_path} takes a context, which only a worker provides.")
    return [TaskContext(task_result=result)]


def _sender(result: TaskResult[..., Any]) -> type[BaseTaskBackend]:
    return type(task_backends[result.backend])


async def _asend_started(result: TaskResult[..., Any]) -> None:
    if _is_watched(task_started, log_task_started):
        await task_started.asend_robust(_sender(result), task_result=result)
    else:  # a thread for a log line would cost more than the task
        task_started.send_robust(_sender(result), task_result=result)


def _is_watched(signal: Signal, log: Callable[..., Any]) -> bool:
    """Return whether a signal has other receivers than Django's own, which logs."""
    return any(key[0] != id(log) for key, *_ in signal.receivers)


@contextmanager
def _back_off(task: Task[..., Any], result: TaskResult[..., Any] | None) -> Iterator[None]:
    """Let the task's `backoff` choose the delay after an error."""
    try:
        yield
    except TaskControl:
        raise
    except Exception as error:
        backoff = getattr(task, "backoff", None)
        delay = None if backoff is None or result is None else backoff(error, result)
        if delay is not None:
            _decide(error, delay)
        raise


def _decide(error: BaseException, delay: Duration | None) -> None:
    """Retry the job that fails with this error after a delay, or never; hooks in AROUND see the error itself."""
    if (current := _current.get()) is not None:
        current._held.decision = (error, delay)


def _accepted(value: Any) -> Any:
    """Return a return value as Django allows it. One that cannot be stored fails the job, which is not repeated."""
    try:
        value = plain(value)
        encode_result(value, config().max_payload_size)
    except (TypeError, ValueError, InvalidPayload, RecursionError) as error:
        refused = TypeError(f"The return value is not JSON serializable: {error}")
        _decide(refused, None)
        raise refused from None
    return value
