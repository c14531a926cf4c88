"""Put back jobs whose task is not registered here: another release may have it. After a grace period they are dead."""

from __future__ import annotations

import difflib
import time
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from djqueue.conf import config
from djqueue.core import registry
from djqueue.core.log import logger
from djqueue.core.records import Settlement
from djqueue.sql import statements

from . import settle

if TYPE_CHECKING:
    from djqueue.core.registry import RegisteredTask

    from .claim import ClaimedJob

NO_TASK = "no task registered"
FIRST, LAST = 1.0, 60.0
# If there are many, moving them every second would cost the other jobs more than these gain by it.
FIRST_OF_MANY = 10.0
# How many pending jobs of the queue are searched for more of them.
AHEAD = 5000
# Seconds between two warnings about one name, and how many names are remembered for that.
WARN_EVERY, MOST_NAMES = 60.0, 1000
CAUSES = (
    "its app is not in INSTALLED_APPS, its module is not imported (djqueue imports only the `tasks` modules of apps), "
    "it was renamed or removed, or another release has it"
)
_warned: dict[str, float] = {}  # task → when, monotonic


def is_django_task(job: ClaimedJob) -> bool:
    """Return whether a job was made through `django.tasks`: its task can be imported by its name."""
    if registry.DJANGO_TASKS not in job.row.headers:
        return False
    try:
        return registry.DJANGO_TASKS in job.headers
    except ValueError:  # written by hand, and not JSON
        return False


def imported(job: ClaimedJob) -> RegisteredTask | None:
    """Return the task of a job that was made through `django.tasks`; None if it is another job, or not importable."""
    with suppress(*registry.IMPORT_ERRORS):
        return registry.find_or_import(job.task, job.headers) if is_django_task(job) else None
    return None


def settlement(job: ClaimedJob) -> Settlement:
    """Return the settlement of a claimed job whose task is unknown, and warn about the task.

    A job made through `django.tasks` is dead at once if its path leads to something that is not a task, or if it has a
    single attempt: then this was it, as with other backends.
    """
    _warn(job)
    error = _import_error(job)
    if error is not None and (job.max_attempts == 1 or not isinstance(error, ImportError)):
        return settle.dead_letter(job, error)
    since = job.row.unknown_since
    age = 0.0 if since is None else job.row.claimed_at - since
    if age >= config().unknown_task_grace:
        return settle.dead_letter(job, error or f"{NO_TASK}: {job.task}", unknown=True)
    return settle.snooze(job, min(max(age, FIRST), LAST), unknown=True)


def _import_error(job: ClaimedJob) -> BaseException | None:
    """Return why the task of a job made through `django.tasks` cannot be imported; None for other jobs."""
    try:
        if is_django_task(job):
            registry.find_or_import(job.task, job.headers)
    except registry.IMPORT_ERRORS as error:
        return error
    return None


def put_back(queue: str, tasks: Collection[str]) -> int:
    """Put back the next jobs of these tasks without claiming them one by one, and return how many.

    Only pending rows are changed. Jobs whose grace period is over are left to be claimed, and become dead.
    """
    put = 0
    grace = config().unknown_task_grace
    while grace:  # without a grace period, jobs become dead as soon as they are claimed
        found = statements().put_back(queue, sorted(tasks), AHEAD, FIRST_OF_MANY, LAST, grace)
        put += found
        if found < AHEAD // 2:
            break
    return put


def _warn(job: ClaimedJob) -> None:
    now = time.monotonic()
    if now < _warned.get(job.task, -WARN_EVERY) + WARN_EVERY:
        return
    while len(_warned) >= MOST_NAMES:
        del _warned[next(iter(_warned))]
    _warned[job.task] = now
    details = (job.task, job.queue, job.id, ",".join(similar(job.task)) or "none", CAUSES)
    logger.warning("no task registered under this name task=%s queue=%s job=%s similar=%s causes=%r", *details)


def similar(task: str) -> list[str]:
    """Return the names of registered tasks that may be meant: those whose functions have the same or a close name."""
    names: dict[str, list[str]] = {}
    for name in sorted(task.name for task in registry.all_tasks()):
        names.setdefault(_function(name), []).append(name)
    close = difflib.get_close_matches(_function(task), names)
    return [name for function in close for name in names[function]][:3]


def _function(task: str) -> str:
    return task.rpartition(".")[2]
