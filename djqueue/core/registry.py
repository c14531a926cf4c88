"""The tasks of this process, by name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from inspect import Signature
from typing import Any, Protocol

from django.apps import AppConfig, apps
from django.utils.module_loading import module_has_submodule

from djqueue.exceptions import DuplicateTask

from . import limits, retries
from .durations import seconds
from .options import TaskOptions
from .records import JobRecord


class RegisteredTask(Protocol):
    """What the layers below the API need of a task."""

    @property
    def name(self) -> str: ...
    @property
    def func(self) -> Callable[..., Any]: ...
    @property
    def options(self) -> TaskOptions: ...


# The header of jobs made through `django.tasks`. A worker imports their tasks by name; see contrib/django_tasks.
DJANGO_TASKS = "django_tasks"
IMPORT_ERRORS = (Exception, SystemExit)  # a script may call exit() when it is imported


class Observer(Protocol):
    """Is told when a job of a task is done, dead or cancelled."""

    def is_watched(self) -> bool:
        """Return whether `finished` calls code of the project, and so needs the job as it is stored."""

    def finished(self, record: JobRecord, error: BaseException | None) -> None:
        """Called with the job, and with what its task raised, if that is known."""


_tasks: dict[str, RegisteredTask] = {}
_observers: dict[str, Observer] = {}
_adopted: dict[str, TaskOptions] = {}
_signatures: dict[str, Signature | None] = {}  # of adopted tasks that have a limit
_discovered = False
_discovering = False
_lock = threading.RLock()


def register(task: RegisteredTask, observer: Observer | None = None) -> None:
    """Add a task. Raise DuplicateTask if another function is registered under its name."""
    known = _tasks.get(task.name)
    if known is not None and not _same_function(known.func, task.func):
        raise DuplicateTask(
            f"Task name {task.name!r} is already registered for {_where(known.func)}. "
            f"Set another name for {_where(task.func)} with @djqueue.task(name=...)."
        )
    _tasks[task.name] = task
    if observer is not None:
        _observers[task.name] = observer


def registered(name: str) -> RegisteredTask | None:
    """Return the task with this name, or None; import nothing."""
    return _tasks.get(name)


def observer(name: str) -> Observer | None:
    """Return what is told when a job of this task is done, dead or cancelled."""
    return _observers.get(name)


def find_or_import(name: str, headers: Mapping[str, Any]) -> RegisteredTask | None:
    """Return the task of a job; import it if it is not found and the job was made through `django.tasks`.

    Raise what the import raises, and InvalidTask if there is something else than a Task.
    """
    task = find(name)
    if task is None and DJANGO_TASKS in headers:
        task = import_module("djqueue.contrib.django_tasks.running").import_task(name)
    return task


def find(name: str) -> RegisteredTask | None:
    """Return the task with this name, or None; import the `tasks` modules of installed apps if it is not found."""
    if name not in _tasks and apps.ready:
        discover()
    return _tasks.get(name)


def options(name: str) -> TaskOptions:
    """Return the options of a task; none are set if it is not registered here."""
    task = find(name)
    return _adopted.get(name, _NO_OPTIONS) if task is None else task.options


def known_options(name: str) -> TaskOptions | None:
    """Return the options of a task; None if it is not registered here and no other process has described it."""
    task = find(name)
    return _adopted.get(name) if task is None else task.options


def limit_of(name: str) -> tuple[limits.Limit, Signature] | None:
    """Return the limit of a task and the signature that its key is made with; None if it has none, or is unknown."""
    limit = options(name).limit
    if limit is None:
        return None
    task = find(name)
    signature = _signatures[name] if task is None else limits.signature_of(task.func)
    return None if signature is None else (limit, signature)


def describe() -> dict[str, dict[str, Any]]:
    """Return, as plain data, what another process needs to enqueue and retry the tasks of this one."""
    return {
        task.name: {name: getattr(task.options, name) for name in ("queue", "priority", "max_attempts", "limit")}
        | {"retry": task.options.retry and retries.dump(task.options.retry)}
        | {"signature": task.options.limit and limits.portable_signature(task.func)}
        for task in all_tasks()
    }


def adopt(described: Mapping[str, Mapping[str, Any]]) -> None:
    """Use the options of tasks described by another process, and never import them here."""
    global _discovered
    _discovered = True
    for name, options in described.items():
        retry = options["retry"] and retries.load(options["retry"])
        _signatures[name] = options["signature"]
        _adopted[name] = TaskOptions(
            **{option: value for option, value in options.items() if option != "signature"} | {"retry": retry}
        )


def task_leases() -> dict[str, float]:
    """Return the leases of the tasks that set one, in seconds."""
    if apps.ready:
        discover()
    return {
        task.name: seconds(task.options.lease, "lease")
        for task in list(_tasks.values())
        if task.options.lease is not None
    }


def all_tasks() -> Iterator[RegisteredTask]:
    """Return the tasks of all installed apps."""
    discover()
    return iter(list(_tasks.values()))


def topics() -> dict[str, list[RegisteredTask]]:
    """Return the topics of all installed apps, and the tasks that subscribe to each, sorted by name."""
    found: dict[str, list[RegisteredTask]] = {}
    for task in sorted(all_tasks(), key=lambda task: task.name):
        for topic in dict.fromkeys(task.options.topics):
            found.setdefault(topic, []).append(task)
    return dict(sorted(found.items()))


def known() -> dict[str, TaskOptions]:
    """Return the options of all tasks by name, also of those that another process has described."""
    return _adopted | {task.name: task.options for task in all_tasks()}


def discover() -> None:
    """Import the `tasks` modules of installed apps, once."""
    global _discovered, _discovering
    if _discovered:
        return
    with _lock:  # other threads wait until the import is finished; the import may call this again
        if _discovered or _discovering:
            return
        _discovering = True
        try:
            for app in apps.get_app_configs():
                _import_tasks(app)
            _discovered = True
        finally:
            _discovering = False


def _import_tasks(app: AppConfig) -> None:
    if app.module is None or not module_has_submodule(app.module, "tasks"):
        return
    try:
        import_module(f"{app.name}.tasks")
    except Exception as error:
        error.add_note(f"The tasks of the app {app.label!r} could not be imported (module {app.name}.tasks).")
        raise


_NO_OPTIONS = TaskOptions()


def _same_function(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    # A module that is imported again (autoreload, importlib.reload) defines its functions again.
    code, other_code = getattr(one, "__code__", None), getattr(other, "__code__", None)
    return one is other or (
        code is not None
        and other_code is not None
        and "<" not in one.__qualname__  # several lambdas or inner functions can share a line
        and one.__qualname__ == other.__qualname__
        and (code.co_filename, code.co_firstlineno) == (other_code.co_filename, other_code.co_firstlineno)
    )


def _where(func: Callable[..., Any]) -> str:
    return f"{func.__module__}.{getattr(func, '__qualname__', func)}"
