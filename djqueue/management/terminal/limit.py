"""Show one limit key, hold or release it, or set other numbers for it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import djqueue
from djqueue.core.limits import read_numbers
from djqueue.core.names import check_name
from djqueue.exceptions import InvalidOption
from djqueue.management.errors import bad_arguments
from djqueue.models import Job
from djqueue.operations import limits
from djqueue.operations.limits import LimitSummary, as_json, numbers_text

from . import texts
from .filters import read_duration
from .jobs import state_of
from .output import Column, Output, add_json, instant, number, relative
from .work import REFUSED

MOST_JOBS = 20
LABEL = 17  # width of the labels
HEAD = (Column("ID", whole=True), Column("STATUS", whole=True), Column("TASK"), Column("QUEUE"))
NUMBERS = ("concurrency", "rate", "burst")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", help="a limit key")
    acts = parser.add_mutually_exclusive_group()
    acts.add_argument("--hold", metavar="TIME", help="admit no job for so long: 90, 30s, 5m, 2h")
    acts.add_argument("--release", action="store_true", help="end the hold")
    acts.add_argument("--clear", action="store_true", help="use the numbers of the tasks again")
    parser.add_argument("--set-concurrency", type=int, metavar="N", help="admit at most N jobs at once")
    parser.add_argument("--set-rate", metavar="RATE", help="admit at most so many jobs per time: 10/s, 100/m, 5/h, 1/d")
    parser.add_argument("--set-burst", type=int, metavar="N", help="how many jobs of the rate may start at once")
    parser.add_argument("--yes", action="store_true", help="also a key that is not in use")
    add_json(parser)


def run(output: Output, options: dict[str, Any]) -> int:
    key = options["key"]
    numbers = {name: options[f"set_{name}"] for name in NUMBERS if options[f"set_{name}"] is not None}
    if numbers and (options["hold"] is not None or options["release"] or options["clear"]):
        raise bad_arguments("Give either numbers to set, or one of --hold, --release and --clear.")
    delay = None if options["hold"] is None else read_duration(options["hold"], "--hold")
    try:
        check_name(key, "limit key")
        if numbers:
            read_numbers(*map(numbers.get, NUMBERS))
    except InvalidOption as error:
        raise bad_arguments(str(error)) from error
    if not options["yes"] and not limits.is_in_use(key):
        output.note(
            f"The limit key {key} is not in use: no job holds or awaits a permit of it, and nothing is set for it. "
            "Nothing was changed. To use it anyway, repeat the command with --yes."
        )
        return REFUSED
    done = act(options, numbers, delay)
    found = limits.summary(key)
    if options["json"]:
        output.json(
            {
                **as_json(found),
                "holders": jobs(limits.holders(key, MOST_JOBS)),
                "waiting": jobs(limits.waiters(key, MOST_JOBS)),
            }
        )
    elif done:
        output.line(done(found))
    else:
        show(output, found)
    return 0


def act(options: dict[str, Any], numbers: dict[str, Any], delay: float | None) -> Any:
    """Do what the options say, and return what makes the line about it; None if they say nothing."""
    key = options["key"]
    if numbers:
        djqueue.limits.set(key, **numbers)
        return lambda found: f"Set {key}: {numbers_text(found.numbers)}."
    if delay is not None:
        djqueue.limits.hold(key, delay)
        return lambda found: f"Held {key}{held(found)}."
    if options["release"]:
        was_held = limits.summary(key).held_until is not None
        djqueue.limits.release(key)
        return lambda found: f"Released {key}." if was_held else f"{key} was not held."
    if options["clear"]:
        was_set = limits.summary(key).is_set
        djqueue.limits.clear(key)
        return lambda found: (
            f"Cleared {key}: {numbers_text(found.numbers)}." if was_set else f"No numbers were set for {key}."
        )
    return None


def show(output: Output, found: LimitSummary) -> None:
    output.line(found.key)
    facts = [
        ("Allows", numbers_text(found.numbers)),
        ("Numbers of", "set at run time" if found.is_set else found.task or ""),
        ("Admitted", f"{number(found.admitted)}, of which {number(found.claimed)} claimed"),
        ("Blocked", number(found.blocked)),
        ("Rate left", "" if found.rate_left is None else number(found.rate_left)),
        ("Held", held(found).strip()),
    ]
    for label, value in facts:
        if value:
            output.line(f"{label.ljust(LABEL)} {texts.clean(value)}", safe=True)
    lists = {
        "Hold a permit": limits.holders(found.key, MOST_JOBS),
        "Next in line": limits.waiters(found.key, MOST_JOBS),
    }
    for title, listed in lists.items():
        if listed:
            output.line()
            output.line(f"{title}:")
            output.table(HEAD, [(job.pk, state_of(job), job.task, job.queue) for job in listed])


def held(found: LimitSummary) -> str:
    """Return until when a key is held; an empty string if it is not."""
    if found.held_until is None:
        return ""
    return f" until {instant(found.held_until)} ({relative(found.held_until, found.now)})"


def jobs(listed: list[Job]) -> list[dict[str, Any]]:
    return [{"id": str(job.pk), "task": job.task, "queue": job.queue, "status": state_of(job)} for job in listed]
