"""List the topics, and the tasks that subscribe to them."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from djqueue.core import registry
from djqueue.lifecycle.enqueue import DEFAULT_QUEUE

from .output import Output, add_json


def add_arguments(parser: ArgumentParser) -> None:
    add_json(parser)


def run(output: Output, options: dict[str, Any]) -> int:
    found = {
        topic: [{"task": task.name, "queue": task.options.queue or DEFAULT_QUEUE} for task in tasks]
        for topic, tasks in registry.topics().items()
    }
    if options["json"]:
        output.json({"topics": [{"topic": topic, "tasks": tasks} for topic, tasks in found.items()]})
    elif not found:
        output.line('No task has a topic. Subscribe a task with @djqueue.task(topics=["order.created"]).')
    else:
        rows = [(topic, task["task"], task["queue"]) for topic, tasks in found.items() for task in tasks]
        output.table(("TOPIC", "TASK", "QUEUE"), rows)
    return 0
