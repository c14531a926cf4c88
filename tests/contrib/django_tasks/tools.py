"""What the tests of the backend share."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management import call_command
from django.db import connections
from django.dispatch import Signal
from django.test.utils import CaptureQueriesContext

from djqueue.conf import config

BACKEND = "djqueue.contrib.django_tasks.DjqueueBackend"


def work(*arguments: str) -> None:
    """Run what is due, one job after the other."""
    call_command("runworker", "--processes", "0", "--threads", "1", "--burst", *arguments)


def run(awaitable: Awaitable[Any]) -> Any:
    """Await something; its queries are made on the connection of the test."""

    async def wait() -> Any:
        return await awaitable

    return async_to_sync(wait)()


def finish(result: Any) -> Any:
    """Run a task and return its result."""
    work()
    result.refresh()
    return result


@contextmanager
def one_query() -> Iterator[None]:
    """Fail if there is not exactly one query: savepoints count too."""
    with CaptureQueriesContext(connections[config().database]) as captured:
        yield
    assert len(captured) == 1, [query["sql"] for query in captured]


@contextmanager
def received(signal: Signal) -> Iterator[list[tuple[type, Any]]]:
    """The senders and results that a signal sends."""
    found: list[tuple[type, Any]] = []

    def receive(sender: type, task_result: Any, **kwargs: Any) -> None:
        found.append((sender, task_result))

    signal.connect(receive)
    try:
        yield found
    finally:
        signal.disconnect(receive)
