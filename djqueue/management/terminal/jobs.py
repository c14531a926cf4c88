"""List jobs, newest first."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from djqueue.core import masking
from djqueue.core.payload import MAX_DEPTH
from djqueue.core.tags import tagged
from djqueue.management.errors import bad_arguments
from djqueue.models import DeadJob, DoneJob
from djqueue.operations import search
from djqueue.sql import statements
from djqueue.states import Status

from . import texts
from .filters import add_filters, describe, hint, read_filters
from .output import NOTHING, Column, Output, add_json, relative, terminal_width

LIMIT = 20
MOST = 10_000
WIDE = 100  # columns of a terminal in which a table also has the errors of jobs in several states
TIMES = ("enqueued_at", "run_at", "started_at", "claimed_at", "completed_at", "failed_at")


def add_arguments(parser: ArgumentParser) -> None:
    add_filters(parser, search.STATES)
    parser.add_argument(
        "--limit", type=int, default=LIMIT, metavar="N", help="show at most N jobs (default: %(default)s)"
    )
    add_json(parser)


def run(output: Output, options: dict[str, Any]) -> int:
    limit = options["limit"]
    if not 1 <= limit <= MOST:
        raise bad_arguments(f"--limit must be between 1 and {MOST:,}, got {limit}")
    filters = read_filters(options)
    found = search.newest(filters, limit + 1)
    more, found = len(found) > limit, found[:limit]
    if options["json"]:
        output.json({"jobs": [as_json(job) for job in found], "more": more})
    elif not found:
        output.line(f"No jobs{describe(filters)}.{hint(filters)}")
    else:
        show_table(output, found, filters)
        if more:
            output.note(f"There are more than {limit:,}. Show more with --limit.")
    return 0


def show_table(output: Output, found: list[Any], filters: search.Filters) -> None:
    now = statements().now()
    columns: list[tuple[Column, Any]] = [(Column("ID", whole=True), lambda job: job.pk)]
    several_states = len(filters.states) != 1
    if several_states:
        columns.append((Column("STATUS", whole=True), state_of))
    columns.append((Column("TASK", narrowest=12), lambda job: job.task))
    if len(filters.queues) != 1:
        columns.append((Column("QUEUE", narrowest=7), lambda job: job.queue))
    columns.append((Column("AGE", right=True), lambda job: relative(when(job), now).removesuffix(" ago")))
    has_room = not several_states or terminal_width() >= WIDE
    if has_room and any(error_of(job) for job in found):
        columns.append((Column("ERROR", keep_start=True), lambda job: error_of(job) or NOTHING))
    output.table([column for column, _ in columns], [[value(job) for _, value in columns] for job in found])


def state_of(job: Any) -> str:
    if job.status == Status.CLAIMED.value and job.started:
        return search.RUNNING
    return str(job.status)


def when(job: Any) -> datetime:
    """Return the time that matters: of the end, of the start of a running job, or when a waiting job is due."""
    if isinstance(job, DoneJob):
        return job.completed_at
    if isinstance(job, DeadJob):
        return job.failed_at or job.enqueued_at
    if job.status == Status.CLAIMED.value and job.claimed_at is not None:
        return job.claimed_at  # type: ignore[no-any-return]
    due: datetime = max(job.run_at, job.enqueued_at)
    return due


def error_of(job: Any) -> str:
    secrets = masking.secrets(job.task, job.short_args, job.short_kwargs)
    return texts.first_line(masking.hide(job.last_error, secrets))


def as_json(job: Any) -> dict[str, Any]:
    args, kwargs = masking.masked(job.task, job.short_args, job.short_kwargs)
    return {
        "id": str(job.pk),
        "task": job.task,
        "queue": job.queue,
        "status": state_of(job),
        "priority": job.priority,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        **{name: getattr(job, name) for name in TIMES},
        "worker": job.worker_ids[-1] if job.worker_ids else None,
        "args": arguments(args, job.short_args),
        "kwargs": arguments(kwargs, job.short_kwargs),
        "last_error": masking.hide(job.last_error, masking.secrets(job.task, job.short_args, job.short_kwargs)),
    }


def arguments(shown: Any, stored: Any) -> Any:
    """Return arguments as they are stored, without sensitive values; None if they are too long."""
    return None if stored is None else tagged(shown, MAX_DEPTH)
