"""Show whether jobs are being run, and when every loop of every worker had its last good turn."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from djqueue.core.durations import in_words
from djqueue.operations import health

from .output import Output, add_json


def add_arguments(parser: ArgumentParser) -> None:
    add_json(parser)


def run(output: Output, options: dict[str, Any]) -> int:
    found = health.check()
    if options["json"]:
        output.json(found.as_json())
    else:
        for problem in found.problems:
            output.line(f"✗ {problem}")
        if found.ready:
            output.line("✓ The database answers, and a worker runs jobs.")
        if found.workers:
            output.line("")
            output.table(("WORKER", "STATE", "LOOP", "LAST GOOD TURN"), _rows(found))
    return 0 if found.ready else 1


def _rows(found: health.Health) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for worker in found.workers:
        name = worker.name or worker.identity
        loops = {"heartbeat": worker.heartbeat_seconds} | worker.loops
        rows += [(name, worker.state.value, loop, f"{in_words(age)} ago") for loop, age in loops.items()]
    return rows
