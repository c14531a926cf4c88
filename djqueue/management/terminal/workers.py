"""List the worker processes."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from django.template.defaultfilters import filesizeformat

from djqueue.core.durations import short
from djqueue.operations import summary
from djqueue.operations.summary import WorkerSummary
from djqueue.operations.values import worker_queues

from .output import NOTHING, Column, Output, add_json, number

HEAD = (
    Column("WORKER", narrowest=12),
    Column("STATE", whole=True),
    Column("QUEUES", keep_start=True),
    Column("RUNNING", right=True),
    Column("FINISHED", right=True),
    Column("MEMORY", right=True),
    Column("HEARTBEAT", right=True),
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="also workers that have stopped, as long as they are kept")
    add_json(parser)


def run(output: Output, options: dict[str, Any]) -> int:
    found = summary.all_workers(stopped=options["all"])
    if options["json"]:
        output.json({"workers": [as_json(worker) for worker in found]})
    elif found:
        output.table(HEAD, rows(found))
    else:
        output.line("No worker is running. Start one with manage.py runworker.")
    return 0


def rows(found: Iterable[WorkerSummary]) -> list[tuple[str, ...]]:
    return [
        (
            worker.name or worker.identity,
            worker.state.value,
            worker_queues(worker.queues),
            f"{worker.running}/{worker.threads}" if worker.alive else NOTHING,
            number(worker.finished),
            filesizeformat(worker.memory).replace("\xa0", " ") if worker.memory else NOTHING,
            f"{short(worker.heartbeat_seconds)} ago",
        )
        for worker in found
    ]


def as_json(worker: WorkerSummary) -> dict[str, Any]:
    values = {field.name: getattr(worker, field.name) for field in fields(worker)}
    return {**values, "state": worker.state.value, "alive": worker.alive}
