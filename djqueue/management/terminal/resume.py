"""Resume paused queues."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from djqueue.lifecycle import pause as pausing
from djqueue.sql import counts, statements

from . import pause
from .output import Output
from .work import REFUSED


def add_arguments(parser: ArgumentParser) -> None:
    pause.add_arguments(parser)


def run(output: Output, options: dict[str, Any]) -> int:
    if not pause.check_known(output, options):
        return REFUSED
    for queue in options["queues"]:
        was_paused = pausing.is_paused(queue)
        pausing.resume(queue)
        waiting = pause.waiting(counts.stats(statements(), queue))
        text = f"Resumed {queue}" if was_paused else f"{queue} was not paused"
        output.line(f"{text}: {waiting}.")
    return 0
