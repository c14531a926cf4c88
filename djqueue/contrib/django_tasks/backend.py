"""The backend: enqueue a Task as a job, and read a job as a TaskResult."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, cast

from django.apps import apps
from django.core import checks
from django.utils import timezone
from django.utils.module_loading import import_string

from djqueue.core.options import CallOptions, TaskOptions
from djqueue.core.records import Inserted
from djqueue.core.registry import DJANGO_TASKS
from djqueue.exceptions import InvalidOption
from djqueue.jobs import get_job
from djqueue.lifecycle import eager
from djqueue.lifecycle import enqueue as enqueueing

from .compat import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from .results import mark_of, plain, result_of, to_djqueue
from .running import register, task_of
from .task import OF_A_CALL, DjqueueTask, copy_of, set_options

DEFAULTS = ("max_attempts", "retry", "timeout", "lease", "dedup_until")
OPTIONS = (*DEFAULTS, "id_function")

P = ParamSpec("P")
R = TypeVar("R")


class DjqueueBackend(BaseTaskBackend):
    """Runs tasks as jobs of djqueue. It has no state: Django makes an instance per thread."""

    task_class = DjqueueTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Task[..., Any]) -> None:
        """Raise InvalidTask if the task cannot be enqueued with the current settings."""
        if isinstance(task.run_after, timedelta):  # counted from the enqueue; Django's own check fails on it
            task = copy_of(task, run_after=None)
        super().validate_task(task)
        self._call_options(task)

    def enqueue(self, task: Task[P, R], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[P, R]:
        """Create a job in the caller's transaction. The job is visible to workers when the transaction commits."""
        self.validate_task(task)
        if isinstance(task.run_after, timedelta):
            task = copy_of(task, run_after=timezone.now() + task.run_after)
        args, kwargs = plain(list(args)), plain(dict(kwargs))
        register(task)
        job = enqueueing.prepare(task.module_path, args, kwargs, self._with_id(self._call_options(task)))
        with eager.held():  # with EAGER, the job runs at the end of this block
            inserted = enqueueing.insert(job, {})
            if not inserted.created:
                return cast("TaskResult[P, R]", self.get_result(str(inserted.id)))  # the job that holds the dedup key
            result = self._new_result(task, args, kwargs, inserted)
            task_enqueued.send_robust(type(self), task_result=result)
        if eager.is_on():
            with suppress(TaskResultDoesNotExist):  # finished jobs may not be kept
                result.refresh()
        return result

    def get_result(self, result_id: str) -> Any:
        """Return the result of a job. Raise TaskResultDoesNotExist if it is unknown, or no longer kept."""
        record = get_job(result_id)
        if record is None:
            raise TaskResultDoesNotExist(result_id)
        task = task_of(record)
        if task is None:
            raise TaskResultDoesNotExist(f"Job {record.id} is not a task of django.tasks, but of {record.task}.")
        return result_of(record, task)

    def check(self, **kwargs: Any) -> list[checks.CheckMessage]:
        """Report a missing app, and unknown or invalid OPTIONS."""
        from djqueue.checks import documented

        found: list[checks.CheckMessage] = list(super().check(**kwargs))
        own: list[checks.CheckMessage] = []
        if not apps.is_installed("djqueue"):
            fact = f"TASKS[{self.alias!r}] uses {type(self).__name__}, but djqueue is not installed."
            own = [checks.Error(fact, hint="Add 'djqueue' to INSTALLED_APPS.", id="djqueue.E007")]
        own += [checks.Error(problem, id="djqueue.E008") for problem in self._problems(self.options)]
        return found + documented(own)

    def task_defaults(self) -> dict[str, Any]:
        """Return the options of tasks that do not set them."""
        return {name: self.options[name] for name in DEFAULTS if self.options.get(name) is not None}

    def _problems(self, options: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is wrong with entries of OPTIONS."""
        for name, value in options.items():
            if problem := _problem(name, value):
                yield f"TASKS[{self.alias!r}]['OPTIONS']: {problem}"

    def _call_options(self, task: Task[..., Any]) -> CallOptions:
        """Return the options of the job. They are stored in its row: a worker obeys them without knowing the task."""
        options = {**self.task_defaults(), **set_options(task, OF_A_CALL)}
        options["headers"] = {**options.get("headers", {}), DJANGO_TASKS: mark_of(task, self.alias)}
        try:
            return CallOptions(
                queue=task.queue_name, priority=to_djqueue(task.priority), run_at=task.run_after, **options
            )
        except InvalidOption as error:
            raise InvalidTask(next(self._problems(self.task_defaults()), str(error))) from None

    def _with_id(self, options: CallOptions) -> CallOptions:
        """Return the options with the id that `id_function` of OPTIONS makes, if there is one."""
        make_id = self.options.get("id_function")
        if make_id is None:
            return options
        try:
            return replace(options, id=(make_id if callable(make_id) else import_string(make_id))())
        except InvalidOption as error:
            raise InvalidTask(f"TASKS[{self.alias!r}]['OPTIONS']['id_function']: {error}") from None

    def _new_result(self, task: Task[P, R], args: Any, kwargs: Any, inserted: Inserted) -> TaskResult[P, R]:
        return TaskResult(
            task=task,
            id=str(inserted.id),
            status=TaskResultStatus.READY,
            enqueued_at=inserted.enqueued_at,
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )


def _problem(name: str, value: Any) -> str:
    """Return what is wrong with an entry of OPTIONS."""
    if name not in OPTIONS:
        near = difflib.get_close_matches(name, OPTIONS, 1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        return f"Unknown option {name!r}.{meant} Valid options: {', '.join(OPTIONS)}"
    try:
        if name in DEFAULTS:
            TaskOptions(**{name: value})
        elif not callable(value):
            import_string(value)
    except (InvalidOption, ImportError, AttributeError) as error:
        return f"{name}: {error}" if name not in DEFAULTS else str(error)
    return ""
