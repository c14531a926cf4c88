"""Check what was enqueued."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypedDict, Unpack

from django.db import connections
from django.db.models import Model

from djqueue.conf import whole
from djqueue.core import masking, registry
from djqueue.core.async_twins import twin
from djqueue.core.durations import Duration, seconds
from djqueue.core.options import check_task_name, normal_run_at
from djqueue.core.records import JobRecord, record_of
from djqueue.core.shown import shown
from djqueue.core.tags import ModelReference
from djqueue.exceptions import InvalidOption
from djqueue.lifecycle import unknown_tasks
from djqueue.sql import statements

MOST_LISTED = 20
# Seconds by which a delay may differ, because databases store the two times of a job apart.
TOLERANCE = 0.001


class NamedTask(Protocol):
    """A task of djqueue or of django.tasks."""

    @property
    def name(self) -> str: ...


class Wanted(TypedDict, total=False):
    """What a job is compared with. Of headers, those that are given."""

    args: Sequence[Any] | None
    kwargs: Mapping[str, Any] | None
    queue: str | None
    priority: int | None
    headers: Mapping[str, Any] | None
    run_at: datetime | None
    delay: Duration | None
    dedup_key: str | None


def assert_enqueued(task: str | NamedTask, *, times: int | None = None, **wanted: Unpack[Wanted]) -> list[JobRecord]:
    """Raise AssertionError unless a job of the task, or of its name, was enqueued; return such jobs.

    `args`, `kwargs`, `queue`, `priority`, `headers`, `run_at`, `delay` and `dedup_key` are compared if they are given.
    `times` is how many jobs there must be, otherwise one or more. All jobs in the queue's tables count, whatever their
    state.
    """
    name, given, records, found = _search(task, wanted)
    if times is not None:
        whole(times, "times", 0)
    if len(found) != times if times is not None else not found:
        expected = "a job" if times is None else f"{times} {'job' if times == 1 else 'jobs'}"
        lines = [f"Expected {expected} of {_described(name, given)}, found {len(found)}."]
        lines.append(_listed(records, name, given))
        if len(found) < (times or 1):
            lines += _causes(name)
        raise AssertionError("\n".join(lines))
    return found


def assert_not_enqueued(task: str | NamedTask, **wanted: Unpack[Wanted]) -> None:
    """Raise AssertionError if a job of the task, or of its name, was enqueued; compared as by `assert_enqueued`."""
    name, given, _, found = _search(task, wanted)
    if found:
        raise AssertionError(
            f"Expected no job of {_described(name, given)}, found {len(found)}.\n{_listed(found, name, given)}"
        )


aassert_enqueued = twin(assert_enqueued)
aassert_not_enqueued = twin(assert_not_enqueued)


def _name(task: str | NamedTask) -> str:
    name = task if isinstance(task, str) else getattr(task, "module_path", None) or getattr(task, "name", None)
    if not isinstance(name, str):
        raise InvalidOption(f"task must be a task or the name of one, got {shown(task)}")
    check_task_name(name)
    return name


def _search(task: str | NamedTask, wanted: Wanted) -> tuple[str, dict[str, Any], list[JobRecord], list[JobRecord]]:
    """Return the name of the task, what is compared, all jobs, and those that are as wanted."""
    given, name = _checked(wanted), _name(task)
    records = _records()
    return name, given, records, [job for job in records if job.task == name and not _differences(job, given)]


def _checked(wanted: Wanted) -> dict[str, Any]:
    """Return what is to be compared, in the form that records have."""
    for name in wanted:
        if name not in Wanted.__annotations__:
            raise TypeError(f"Unknown argument {name!r}. Valid arguments: {', '.join(Wanted.__annotations__)}")
    given: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    for name, value in given.items():
        if name == "args" and (isinstance(value, str) or not isinstance(value, Sequence)):
            raise InvalidOption(f"args must be a list or tuple, got {type(value).__name__}")
        if name in ("kwargs", "headers") and not isinstance(value, Mapping):
            raise InvalidOption(f"{name} must be a dictionary, got {type(value).__name__}")
    for name, convert in CONVERSIONS.items():
        if name in given:
            given[name] = convert(given[name])
    return given


def _comparable(value: Any) -> Any:
    """Return a value as a record has it: model instances are references, and tuples lists."""
    if isinstance(value, Model):
        return ModelReference(value._meta.label, str(value._state.db), value.pk)
    if isinstance(value, Mapping):
        return {key: _comparable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_comparable(item) for item in value]
    return value


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "args": _comparable,
    "kwargs": _comparable,
    "run_at": normal_run_at,
    "delay": lambda delay: seconds(delay, "delay"),
}


def _records() -> list[JobRecord]:
    """Return all jobs, in the order in which they were enqueued."""
    alias = statements().alias
    from djqueue.models import DeadJob, DoneJob, Job

    found: list[JobRecord] = []
    for model in (Job, DoneJob, DeadJob):
        rows: Any = model._base_manager.using(alias)
        found += map(record_of, rows.all())
    return sorted(found, key=lambda record: (record.enqueued_at, record.id))


def _differences(record: JobRecord, wanted: Mapping[str, Any]) -> list[str]:
    """Return the names of what is not as wanted."""
    return [name for name, value in wanted.items() if not _is_as_wanted(record, name, value)]


def _is_as_wanted(record: JobRecord, name: str, value: Any) -> bool:
    if name == "headers":
        return all(key in record.headers and item == record.headers[key] for key, item in value.items())
    if name == "delay":
        return bool(abs((record.run_at - record.enqueued_at).total_seconds() - value) <= TOLERANCE)
    return bool(value == getattr(record, name))  # the wanted value first, which may be unittest.mock.ANY


def _described(name: str, wanted: Mapping[str, Any]) -> str:
    shown = dict(wanted)
    args, kwargs = masking.masked(name, wanted.get("args", []), wanted.get("kwargs", {}))
    shown |= {key: value for key, value in {"args": args, "kwargs": kwargs}.items() if key in wanted}
    return " ".join([name, *(f"{key}={value!r}" for key, value in shown.items())])


def _listed(records: list[JobRecord], name: str, wanted: Mapping[str, Any]) -> str:
    """Return a line per job that was enqueued, the most similar first."""
    if not records:
        return "No job was enqueued."
    nearest = sorted(records, key=lambda record: _distance(record, name, wanted))
    lines = [_line(record, wanted) for record in nearest[:MOST_LISTED]]
    if len(records) > MOST_LISTED:
        lines.append(f"… and {len(records) - MOST_LISTED} more")
    return "\n  ".join(["Enqueued:", *lines])


def _causes(name: str) -> list[str]:
    """Return what may have kept a job from being enqueued, or found."""
    causes = []
    if registry.find(name) is None:
        similar = ", ".join(unknown_tasks.similar(name))
        causes.append(f"No task {name!r} is registered." + (f" Similar names: {similar}." if similar else ""))
    # Those of djqueue itself, which announce what was written, are the robust ones.
    waiting: list[Any] = [
        entry for connection in connections.all(initialized_only=True) for entry in connection.run_on_commit
    ]
    if number := sum(not robust for _, _, robust in waiting):
        causes.append(
            f"Functions that wait for the commit: {number}. The transaction of a test does not commit; call them with "
            "captureOnCommitCallbacks(execute=True) of TestCase, or pytest's django_capture_on_commit_callbacks."
        )
    return causes


def _distance(record: JobRecord, name: str, wanted: Mapping[str, Any]) -> tuple[float, int]:
    return -difflib.SequenceMatcher(None, record.task, name).ratio(), len(_differences(record, wanted))


def _line(record: JobRecord, wanted: Mapping[str, Any]) -> str:
    args, kwargs = masking.masked(record.task, record.args, record.kwargs)
    shown = [repr(value) for value in args] if isinstance(args, list) else [f"*{args!r}"]
    shown += [f"{key}={value!r}" for key, value in kwargs.items()] if isinstance(kwargs, dict) else [f"**{kwargs!r}"]
    more = {name: _shown(record, name) for name in wanted if name not in ("args", "kwargs", "queue")}
    details = {"queue": repr(record.queue)} | more | {"status": record.status.value}
    return f"{record.task}({', '.join(shown)}) " + " ".join(f"{key}={value}" for key, value in details.items())


def _shown(record: JobRecord, name: str) -> str:
    if name == "delay":
        return f"{(record.run_at - record.enqueued_at).total_seconds():g}"
    value = getattr(record, name)
    return str(value) if isinstance(value, datetime) else repr(value)
