"""The names, leases and schedules of tasks, and the queues of TASKS."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.utils.module_loading import import_string

from djqueue import schedules
from djqueue.core import registry
from djqueue.exceptions import DuplicateSchedule, DuplicateTask

from .base import import_tasks, register, valid_config
from .settings import short_leases

BACKEND = "djqueue.contrib.django_tasks"


@register("djqueue")
def check_tasks(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report tasks that cannot be imported, and names that are used twice."""
    error = import_tasks()
    if isinstance(error, DuplicateTask | DuplicateSchedule):
        return [Error(str(error), hint="Rename one of them.", id="djqueue.E010")]
    if error is not None:
        where = " ".join(getattr(error, "__notes__", []))
        return [
            Error(
                f"{type(error).__name__}: {error!s:.300} {where}",
                hint="Import this module in manage.py shell for the traceback.",
                id="djqueue.E011",
            )
        ]
    return [*_schedules_declared_twice(), *_queues_that_differ_in_case()]


def _schedules_declared_twice() -> Iterator[CheckMessage]:
    declared = schedules.declarations()
    for task in registry.all_tasks():
        if task.options.cron is not None and declared[task.name] != {"task": task.name, "cron": task.options.cron}:
            yield Error(
                f"Schedule {task.name!r} is declared twice: by cron= of the task with this name, and by "
                "djqueue.schedule(), which is used.",
                hint="Remove one of the two declarations, or rename the schedule.",
                id="djqueue.E010",
            )


def _queues_that_differ_in_case() -> Iterator[CheckMessage]:
    config = valid_config()
    of_tasks = [task.options.queue for task in registry.all_tasks() if task.options.queue]
    spellings: dict[str, set[str]] = defaultdict(set)
    for queue in [*of_tasks, *(config.queues if config else ()), *queues_of_tasks_setting()]:
        spellings[queue.lower()].add(queue)
    for names in spellings.values():
        if len(names) > 1:
            yield Warning(
                f"These queues differ only in case, and are separate queues: {', '.join(sorted(names))}.",
                hint="Use one spelling in tasks, DJQUEUE['QUEUES'] and TASKS.",
                id="djqueue.W013",
            )


@register("djqueue")
def check_leases_of_tasks(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Warn about leases of tasks that expire faster than the reaper looks."""
    if (config := valid_config()) is None or import_tasks() is not None:
        return []
    return short_leases({f"The lease of task {name}": lease for name, lease in registry.task_leases().items()}, config)


@register("djqueue")
def check_schedules(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report invalid schedules that are declared in code."""
    if valid_config() is None or import_tasks() is not None:
        return []
    found: list[CheckMessage] = []
    for name, definition in schedules.declarations().items():
        problems = schedules.problems(name, **definition)
        found += [Error(f"Schedule {name!r}: {problem}.", id="djqueue.E004") for problem in problems.values()]
    return found


def queues_of_tasks_setting() -> dict[str, str]:
    """Return the queues of the backends of djqueue in TASKS, and where each is named."""
    backends = getattr(settings, "TASKS", None)
    found: dict[str, str] = {}
    for alias, backend in backends.items() if isinstance(backends, dict) else ():
        if isinstance(backend, dict) and _is_backend_of_djqueue(backend.get("BACKEND")):
            queues = backend.get("QUEUES", ["default"])
            names = queues if isinstance(queues, list | tuple | set | frozenset) else []
            found |= {name: f"TASKS[{alias!r}]['QUEUES']" for name in names if isinstance(name, str)}
    return found


def _is_backend_of_djqueue(path: object) -> bool:
    """Return whether a dotted path names the backend of djqueue or a subclass."""
    if not isinstance(path, str) or path.startswith(BACKEND):
        return isinstance(path, str)
    try:
        backend = import_string(path)
    except Exception:  # of the project's code; Django reports it
        return False
    return any(base.__module__.startswith(BACKEND) for base in getattr(backend, "__mro__", ()))
