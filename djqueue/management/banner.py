"""What a worker prints when it starts: its options, its tasks, and mistakes in the names of queues."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from djqueue.checks.tasks import queues_of_tasks_setting
from djqueue.conf import config
from djqueue.core import registry
from djqueue.core.identity import identity
from djqueue.core.records import QueueStats
from djqueue.lifecycle.enqueue import DEFAULT_QUEUE
from djqueue.models import QueueState, Schedule
from djqueue.sql import counts, statements
from djqueue.worker import databases
from djqueue.worker.options import Options

NO_TASKS = (
    "No tasks are registered. djqueue imports the tasks module of every app in INSTALLED_APPS: "
    "is your app listed there, and are its tasks declared with @djqueue.task in its tasks.py?"
)


def banner(options: Options) -> str:
    """Return one line with the options of the worker."""
    queues = ", ".join(f"{name}={limit}" if limit else name for name, limit in options.queues.items()) or "all"
    exclude = ", ".join(options.exclude)
    parts = [
        f"djqueue worker {identity()}",
        *([f"name={options.name}"] if options.name else []),
        f"queues={queues}",
        *([f"exclude={exclude}"] if exclude else []),
        f"database={config().database}",
        f"processes={options.processes}",
        f"threads={options.threads}",
        f"wake-up={databases.wake_up()}",
        f"tasks={len(registry.known())}",
        *([] if options.maintenance else ["maintenance=off"]),
        *([] if options.scheduler and options.maintenance else ["schedules=off"]),
    ]
    return " ".join(parts)


def tasks() -> list[str]:
    """Return a line for every task."""
    known = sorted(registry.known().items())
    return [f"task {name} queue={options.queue or DEFAULT_QUEUE}" for name, options in known]


def queue_notes(options: Options) -> Iterator[str]:
    """Return a line for every name that nothing knows, and one for the queues that have jobs and are not consumed.

    The statements are quick beside a million jobs; tests/worker/test_banner.py checks their plans.
    """
    database = statements()
    live = counts.live_names(database)
    known = {DEFAULT_QUEUE, *config().queues, *queues_of_tasks_setting(), *live}
    known.update(task.queue for task in registry.known().values() if task.queue)
    for table in ("djqueue_donejob", "djqueue_deadjob", "djqueue_throughput"):
        known.update(database.queues_in(table))
    for model in (QueueState, Schedule):
        names = model._base_manager.using(config().database).values_list("queue", flat=True)
        known.update(name for name in names if name)
    for option, given in {"--queue": options.queues, "--exclude": options.exclude}.items():
        for name in given:
            if name not in known and counts.stats(database, name) == QueueStats():
                yield f"{option} {name}: no task, setting, schedule or job uses this queue.{_near(name, known)}"
    if elsewhere := sorted(name for name in live if not options.consumes(name)):
        yield f"Queues with jobs that this worker does not consume: {', '.join(elsewhere)}"


def _near(name: str, known: set[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
