"""List the limit keys in use, with their permits."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from djqueue.core.durations import short
from djqueue.management.errors import bad_arguments
from djqueue.operations import limits
from djqueue.operations.limits import LimitSummary, as_json, numbers_text

from .output import NOTHING, Column, Output, add_json, number

LIMIT = 50
MOST = 500  # in one statement
HEAD = (
    Column("KEY", narrowest=12),
    Column("ALLOWS", keep_start=True, narrowest=12),
    Column("SET", whole=True),
    Column("ADMITTED", right=True),
    Column("BLOCKED", right=True),
    Column("HELD", whole=True),
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--limit", type=int, default=LIMIT, metavar="N", help="show at most N keys (default: %(default)s)"
    )
    add_json(parser)


def run(output: Output, options: dict[str, Any]) -> int:
    limit = options["limit"]
    if not 1 <= limit <= MOST:
        raise bad_arguments(f"--limit must be between 1 and {MOST:,}, got {limit}")
    keys = limits.first_keys(limit + 1)
    found = limits.summaries(keys[:limit])
    more = len(keys) > limit
    if options["json"]:
        output.json({"limits": [as_json(one) for one in found], "more": more})
    elif not found:
        output.line(
            'No limit key is in use. Limit a task with @djqueue.task(limit=djqueue.Limit("user:{id}", concurrency=5)).'
        )
    else:
        output.table(HEAD, [row(one) for one in found])
        if more:
            output.note(
                f"There are more than {limit:,}. Show more with --limit, or one with manage.py djqueue limit KEY."
            )
    return 0


def row(found: LimitSummary) -> tuple[str, ...]:
    return (
        found.key,
        numbers_text(found.numbers),
        "yes" if found.is_set else "no",
        number(found.admitted),
        number(found.blocked),
        NOTHING if found.held_until is None else f"for {short((found.held_until - found.now).total_seconds())}",
    )
