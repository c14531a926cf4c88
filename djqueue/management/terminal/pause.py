"""Pause queues: no more of their jobs are claimed, running ones continue."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from djqueue.conf import config
from djqueue.core import registry
from djqueue.core.options import check_queue
from djqueue.core.records import QueueStats
from djqueue.exceptions import InvalidOption
from djqueue.lifecycle import pause as pausing
from djqueue.lifecycle.enqueue import DEFAULT_QUEUE
from djqueue.management.errors import bad_arguments
from djqueue.models import QueueState
from djqueue.operations.wording import counted
from djqueue.sql import counts, statements

from . import texts
from .output import Output
from .work import REFUSED


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("queues", nargs="+", metavar="QUEUE", help="name of a queue")
    parser.add_argument("--yes", action="store_true", help="also a queue that has never had a job")


def run(output: Output, options: dict[str, Any]) -> int:
    if not check_known(output, options):
        return REFUSED
    for queue in options["queues"]:
        pausing.pause(queue)
        found = counts.stats(statements(), queue)
        output.line(
            f"Paused {queue}: {waiting(found)} will wait, {counted(found.claimed, 'claimed job')} will continue."
        )
    return 0


def waiting(found: QueueStats) -> str:
    """Return how many jobs of a queue could run, or wait for a permit."""
    pending = counted(found.pending, "pending job")
    return f"{pending} and {counted(found.blocked, 'blocked job')}" if found.blocked else pending


def check_known(output: Output, options: dict[str, Any]) -> bool:
    """Return whether all queues are known, or --yes was given; nothing is written for a misspelt name."""
    for queue in options["queues"]:
        try:
            check_queue(queue)
        except InvalidOption as error:
            raise bad_arguments(str(error)) from error
    if options["yes"]:
        return True
    known = known_queues()
    unknown = [queue for queue in options["queues"] if queue not in known]
    for queue in unknown:
        output.note(
            f"No queue {queue} is known: it has no jobs, and no task or setting names it."
            f"{texts.near(queue, known)} Nothing was changed. To use this name anyway, repeat the command with --yes."
        )
    return not unknown


def known_queues() -> set[str]:
    """Return the queues that have or had jobs, and those that settings, tasks and earlier pauses name."""
    database = statements()
    states = QueueState.objects.using(database.alias).values_list("queue", flat=True)
    tasks = (task.options.queue or DEFAULT_QUEUE for task in registry.all_tasks())
    return {*counts.names(database), *config().queues, *states, *tasks}
