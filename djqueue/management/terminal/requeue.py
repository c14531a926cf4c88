"""Make dead jobs live again: each keeps its id and starts with all its attempts."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from djqueue.core.records import Requeue
from djqueue.lifecycle.requeue import requeue_many
from djqueue.models import DeadJob

from . import selection
from .output import Output


def add_arguments(parser: ArgumentParser) -> None:
    selection.add_arguments(parser)


def requeue(ids: Sequence[UUID]) -> dict[UUID, str]:
    return {record.id: "requeued" for record in requeue_many([Requeue(id=job) for job in ids])}


REQUEUE = selection.Act(
    verb="Requeue",
    done="requeued",
    kind="dead ",
    model=DeadJob,
    perform=requeue,
    results=("requeued",),
    refusal="is not dead",
    enqueues=True,
)


def run(output: Output, options: dict[str, Any]) -> int:
    return selection.run(output, options, REQUEUE)
