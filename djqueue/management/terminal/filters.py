"""The options that select jobs, as the filters of the admin do."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from djqueue.core import durations, registry
from djqueue.core.options import normal_run_at
from djqueue.exceptions import InvalidOption
from djqueue.management.errors import bad_arguments
from djqueue.operations.search import Filters
from djqueue.sql import statements

from . import texts


def add_filters(parser: ArgumentParser, states: Sequence[str] = ()) -> None:
    add_queue(parser, "only jobs of this queue; repeat for several")
    parser.add_argument(
        "--task", action="append", default=[], metavar="NAME", help="only jobs of this task; repeat for several"
    )
    if states:
        parser.add_argument(
            "--status",
            action="append",
            default=[],
            choices=states,
            metavar="STATUS",
            help=f"only jobs in this state; repeat for several: {', '.join(states)}",
        )
    parser.add_argument(
        "--error",
        default="",
        metavar="TEXT",
        help="only jobs whose last error contains this text; # matches anything, case is ignored",
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="only jobs that ended since then (live jobs: that were enqueued); 30m, 2h, 1d or an ISO 8601 time",
    )


def add_queue(parser: ArgumentParser, text: str) -> None:
    parser.add_argument("--queue", action="append", default=[], metavar="NAME", help=text)


def read_filters(options: Mapping[str, Any]) -> Filters:
    return Filters(
        queues=options["queue"],
        tasks=options["task"],
        states=options.get("status") or (),
        error=options["error"],
        since=None if options["since"] is None else read_since(options["since"]),
    )


def read_since(value: str) -> datetime:
    """Return the time that a user has typed: a duration before now, or a time, by default in the project's zone."""
    if (seconds := durations.parse(value)) is not None:
        return statements().now() - timedelta(seconds=seconds)
    return read_time(value, "--since")


def read_time(value: str, option: str) -> datetime:
    try:
        time = parse_datetime(value) or parse_datetime(f"{value}T00:00")
    except ValueError:
        time = None
    if time is None:
        raise bad_arguments(
            f"{option} must be a duration such as 30m, 2h or 1d, or a time such as 2026-01-31T09:00+01:00, "
            f"got {texts.clean(value)!r:.80}"
        )
    try:
        return normal_run_at(timezone.make_aware(time) if timezone.is_naive(time) else time, option)
    except InvalidOption as error:
        raise bad_arguments(str(error)) from error


def read_duration(value: str, option: str) -> float:
    seconds = durations.parse(str(value))
    if seconds is None:
        raise bad_arguments(f"{option} must be a duration such as 90, 30s, 5m, 2h or 1d, got {value!r:.80}")
    return seconds


def describe(filters: Filters) -> str:
    """Return the filters as the end of a sentence about jobs."""
    parts = []
    for word, names in (("queue", filters.queues), ("task", filters.tasks)):
        if names:
            parts.append(f" of {word}{'s' if len(names) > 1 else ''} {', '.join(map(texts.clean, names))}")
    if filters.error:
        parts.append(f' with the error "{texts.clean(filters.error)}"')
    if filters.since:
        parts.append(f" since {timezone.localtime(filters.since):%Y-%m-%d %H:%M:%S %Z}")
    return "".join(parts)


def hint(filters: Filters) -> str:
    """Return what may be wrong with filters that matched nothing: a name that is misspelt."""
    known = {task.name for task in registry.all_tasks()}
    unknown = [name for name in filters.tasks if name not in known]
    return "".join(f" No task {texts.clean(name)} is registered.{texts.near(name, known)}" for name in unknown)
