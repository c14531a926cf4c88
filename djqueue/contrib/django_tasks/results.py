"""The TaskResult of a job: what its row means in the terms of `django.tasks`."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from django.utils import timezone

from djqueue.core import retries
from djqueue.core.records import JobRecord
from djqueue.core.registry import DJANGO_TASKS
from djqueue.states import NORMAL, Status

from .compat import Task, TaskError, TaskResult, TaskResultStatus, normalize_json, task_backends
from .task import OF_A_CALL, copy_of, set_options

# Priority 0 is djqueue.NORMAL and 100 is djqueue.HIGH. Lower numbers of djqueue run first.
STEP = 9
HIGHEST = 100

STATUS = {
    Status.SCHEDULED: TaskResultStatus.READY,
    Status.BLOCKED: TaskResultStatus.READY,
    Status.PENDING: TaskResultStatus.READY,
    Status.CLAIMED: TaskResultStatus.RUNNING,
    Status.DONE: TaskResultStatus.SUCCESSFUL,
    Status.DEAD: TaskResultStatus.FAILED,
    Status.CANCELLED: TaskResultStatus.FAILED,
}
FINISHED = (TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED)
CANCELLED = TaskError(exception_class_path="djqueue.exceptions.Cancelled", traceback="djqueue.exceptions.Cancelled\n")


def to_djqueue(priority: int) -> int:
    """Return djqueue's priority for one of Django's."""
    return NORMAL - STEP * int(priority)


def to_django(priority: int) -> int:
    """Return Django's priority for one of djqueue's, which may have been changed in the admin: the nearest."""
    return max(-HIGHEST, min(HIGHEST, round((NORMAL - priority) / STEP)))


def plain(value: Any) -> Any:
    """Return a value as it will be read. Raise TypeError, as Django does, for a type that JSON lacks."""
    return json.loads(json.dumps(normalize_json(value)))


def mark_of(task: Task[..., Any], alias: str) -> dict[str, Any]:
    """Return the header that marks a job made through the backend: what of its Task the row does not say."""
    mark = {"backend": alias, **set_options(task, OF_A_CALL)}
    if task.run_after is not None:
        mark["run_after"] = task.run_after.isoformat()
    if "retry" in mark:
        mark["retry"] = json.loads(retries.dump(mark["retry"]))
    if "headers" in mark:
        mark["headers"] = list(mark["headers"])  # the names: their values are in the row
    return mark


def task_of(record: JobRecord, declared: Task[..., Any]) -> Task[..., Any]:
    """Return the Task as it was enqueued."""
    mark = record.headers.get(DJANGO_TASKS)
    mark = mark if isinstance(mark, dict) else {}  # a job that was enqueued by name, or by a schedule, has none
    alias = mark.get("backend")  # it may have been renamed or removed since
    names = OF_A_CALL if mark and hasattr(declared, "max_attempts") else ()
    options: dict[str, Any] = {name: mark.get(name) for name in names}
    if options.get("retry"):
        options["retry"] = retries.load(options["retry"])
    if options.get("headers") is not None:
        options["headers"] = {name: record.headers.get(name) for name in options["headers"]}
    return copy_of(
        declared,
        priority=to_django(record.priority),
        queue_name=record.queue,
        backend=alias if alias in list(task_backends) else declared.backend,
        run_after=datetime.fromisoformat(mark["run_after"]) if mark.get("run_after") else None,
        **options,
    )


def result_of(record: JobRecord, declared: Task[..., Any]) -> TaskResult[..., Any]:
    """Return the TaskResult of a job, without a query."""
    task = task_of(record, declared)
    status = STATUS[record.status]
    finished_at = None
    if status in FINISHED:  # a job that is not kept has no row to read the time from
        finished_at = record.completed_at or record.failed_at or timezone.now()
    result: TaskResult[..., Any] = TaskResult(
        task=task,
        id=str(record.id),
        status=status,
        enqueued_at=record.enqueued_at,
        started_at=record.started_at,
        finished_at=finished_at,
        last_attempted_at=record.last_attempted_at,
        args=_shown(record.args),
        kwargs=_shown(record.kwargs),
        backend=task.backend,
        errors=_errors(record),
        worker_ids=list(record.worker_ids),
    )
    if status is TaskResultStatus.SUCCESSFUL:
        object.__setattr__(result, "_return_value", record.result)
    return result


def _errors(record: JobRecord) -> list[TaskError]:
    """Return one error per failed attempt; a cancelled job that never failed has one that says so."""
    errors = [_error(entry) for entry in record.errors if "exception" in entry]
    return errors + [CANCELLED] * (record.status == Status.CANCELLED)


def _error(entry: dict[str, Any]) -> TaskError:
    # An attempt that ended with its process, or with its lease, has a message but no exception.
    path = entry["exception"] or "djqueue.exceptions.DjqueueError"
    return TaskError(exception_class_path=path, traceback=entry["traceback"] or f"{path}: {entry['message']}\n")


def _shown(value: Any) -> Any:
    """Return arguments as Django allows them; a job that was enqueued by name may have others, shown as text."""
    try:
        return normalize_json(value)
    except TypeError:
        return json.loads(json.dumps(value, default=str))
