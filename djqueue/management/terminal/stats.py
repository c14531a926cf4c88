"""Show queues, rates and workers."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, InterfaceError, connections

from djqueue.conf import config
from djqueue.core.durations import short
from djqueue.management.errors import bad_arguments
from djqueue.operations import rates, summary
from djqueue.operations.rates import Rates
from djqueue.operations.summary import QueueSummary, WorkerSummary
from djqueue.sql import statements

from . import screen, texts, workers
from .filters import add_queue, read_duration
from .output import NOTHING, Column, Output, add_json, instant, is_terminal, number

AWAY = (DatabaseError, InterfaceError)
INTERVAL = "2"
SHORTEST = 0.1
COUNTS = ("pending", "scheduled", "blocked", "claimed", "dead", "done")
RATES = (
    Column("QUEUE"),
    *(Column(f"{what}\n{minutes} MIN", right=True) for what in ("DONE", "FAILED") for minutes in (5, 60)),
    *(Column(f"{what}\n{share}", right=True) for what in ("WAIT", "RUN") for share in ("MEDIAN", "P95")),
)


def add_arguments(parser: ArgumentParser) -> None:
    add_queue(parser, "only this queue; repeat for several")
    parser.add_argument(
        "--watch",
        nargs="?",
        const=INTERVAL,
        metavar="SECONDS",
        help="repeat every so many seconds (default: 2): a live screen on a terminal, lines in a pipe; q quits",
    )
    add_json(parser)


@dataclass(frozen=True, slots=True)
class Now:
    """What is shown, of one moment."""

    at: Any
    queues: list[QueueSummary]
    recent: dict[str, Rates]  # of 5 minutes
    hour: dict[str, Rates]
    workers: list[WorkerSummary]


def read(names: Sequence[str]) -> Now:
    found = [queue for queue in summary.queues() if not names or queue.queue in names]
    return Now(statements().now(), found, rates.by_queue(5), rates.by_queue(60), summary.all_workers())


def run(output: Output, options: dict[str, Any]) -> int:
    if options["watch"] is not None:
        return watch(output, options)
    if options["json"]:
        output.json(as_json(options["queue"]))
        return 0
    for line in lines(output, read(options["queue"]), options["queue"]):
        output.line(line, safe=True)
    return 0


def as_json(names: Sequence[str]) -> dict[str, Any]:
    found = summary.as_json()
    if names:
        found["queues"] = [queue for queue in found["queues"] if queue["queue"] in names]
    return found


def lines(output: Output, now: Now, names: Sequence[str] = ()) -> list[str]:
    shown = queue_lines(output, now.queues, names)
    ended = [queue.queue for queue in now.queues if queue.queue in now.hour]
    if ended:
        shown += ["", *output.table_lines(RATES, [rates_row(name, now) for name in ended])]
    if now.workers:
        return [*shown, "", *output.table_lines(workers.HEAD, workers.rows(now.workers))]
    return [*shown, "", "No worker is running. Start one with manage.py runworker."]


def queue_lines(output: Output, queues: Sequence[QueueSummary], names: Sequence[str]) -> list[str]:
    if not queues:
        return [
            f"No queue {', '.join(map(texts.clean, names))} has had a job." if names else "There are no queues yet."
        ]
    shown = [name for name in COUNTS if name != "blocked" or any(queue.blocked for queue in queues)]
    titles = [Column("RUNNING" if name == "claimed" else name.upper(), right=True) for name in shown]
    head = [Column("QUEUE"), *titles, Column("OLDEST", right=True), Column("STATE", whole=True)]
    return output.table_lines(
        head,
        [
            (
                queue.queue,
                *(number(getattr(queue, name)) for name in shown),
                seconds(queue.oldest_pending_seconds),
                state(queue),
            )
            for queue in queues
        ],
    )


def state(queue: QueueSummary) -> str:
    if queue.paused:
        return "paused"
    return "no worker" if queue.waiting and not queue.consumed else "ok"


def rates_row(name: str, now: Now) -> tuple[str, ...]:
    recent, hour = now.recent.get(name, Rates()), now.hour[name]
    counts = (recent.done, hour.done, recent.failed, hour.failed)
    shares = (histogram.quantile(share) for histogram in (hour.wait, hour.run) for share in (0.5, 0.95))
    return (name, *map(number, counts), *map(seconds, shares))


def seconds(value: float | None) -> str:
    return NOTHING if value is None else short(value)


# --watch


def watch(output: Output, options: dict[str, Any]) -> int:
    interval = read_duration(options["watch"], "--watch")
    if interval < SHORTEST:
        raise bad_arguments(f"--watch must be {SHORTEST} or more, got {options['watch']}")
    names = options["queue"]
    read(names)  # a database that is away at the start is an error
    if is_terminal(output.stdout) and not options["json"]:
        with screen.Screen(output.stdout) as live:
            live.show_until_quit(lambda: frame(output, names, interval), interval)
        return 0
    try:
        while True:
            append(output, options)
            output.stdout.flush()
            time.sleep(interval)
    except KeyboardInterrupt:
        return 0


def frame(output: Output, names: Sequence[str], interval: float) -> Any:
    """Read the numbers, and return what draws them to the current size of the terminal."""
    try:
        now = read(names)
    except AWAY as error:
        connections[config().database].close()
        problem = f"The database cannot be used: {texts.clean(' '.join(str(error).split()))}"
        return lambda: [problem]
    title = f"djqueue  {instant(now.at)}  every {short(interval)}  q to quit"
    return lambda: [title, "", *lines(output, now, names)]


def append(output: Output, options: dict[str, Any]) -> None:
    """Print one line per queue, or all as one line of JSON."""
    try:
        if options["json"]:
            output.json({"at": statements().now(), **as_json(options["queue"])}, indent=None)
            return
        now = read(options["queue"])
    except AWAY as error:
        connections[config().database].close()
        output.note(f"The database cannot be used: {' '.join(str(error).split())}")
        return
    alive = sum(worker.alive for worker in now.workers)
    for queue in now.queues:
        recent = now.recent.get(queue.queue, Rates())
        counts = " ".join(f"{name}={getattr(queue, name)}" for name in COUNTS)
        oldest = "-" if queue.oldest_pending_seconds is None else f"{queue.oldest_pending_seconds:.1f}"
        output.line(
            f"{now.at.isoformat(timespec='seconds')} queue={texts.clean(queue.queue)} {counts} oldest={oldest} "
            f"done_5m={recent.done} failed_5m={recent.failed} state={state(queue).replace(' ', '_')} workers={alive}"
        )
    if not now.queues:
        output.line(f"{now.at.isoformat(timespec='seconds')} no queues workers={alive}")
