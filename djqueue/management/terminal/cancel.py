"""Cancel jobs: waiting ones at once, running ones are asked to stop."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from djqueue.lifecycle.cancel import cancel_many
from djqueue.models import Job
from djqueue.operations.search import TABLES
from djqueue.states import CancelOutcome

from . import selection
from .output import Output

RESULTS = {CancelOutcome.REMOVED: "cancelled", CancelOutcome.REQUESTED: "asked_to_stop"}
STATES = TABLES[Job][0]


def add_arguments(parser: ArgumentParser) -> None:
    selection.add_arguments(parser, STATES)


def cancel(ids: Sequence[UUID]) -> dict[UUID, str]:
    return {job.id: RESULTS[job.outcome] for job in cancel_many(ids)}


CANCEL = selection.Act(
    verb="Cancel",
    done="cancelled",
    kind="live ",
    model=Job,
    perform=cancel,
    results=tuple(RESULTS.values()),
    refusal="is not live",
)


def run(output: Output, options: dict[str, Any]) -> int:
    return selection.run(output, options, CANCEL)
