"""What many tests need: rows, clocks, statements, and work beside the test's own connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connections
from django.test.utils import CaptureQueriesContext

import djqueue
from djqueue.conf import config
from djqueue.models import DeadJob, DoneJob, Job
from djqueue.sql import statements

# SQLite locks the file: a connection that finds it locked waits.
WITH_ROW_LOCKS = ("postgresql", "postgresql_pool", "postgresql_bound", "postgresql_repeatable", "mysql")


def rows(model: Any) -> Any:
    return model._base_manager.using(config().database)


def live(job_id: UUID) -> Job:
    return rows(Job).get(pk=job_id)


def database_now() -> datetime:
    return statements().now()


def claim_one(queue: str = "default", **options: Any) -> djqueue.ClaimedJob:
    [job] = djqueue.Queue(queue).claim(**options)
    return job


def places(job_id: UUID) -> list[str]:
    """The tables that hold the job."""
    return [model.__name__ for model in (Job, DoneJob, DeadJob) if rows(model).filter(pk=job_id).exists()]


@contextmanager
def statements_sent() -> Iterator[list[str]]:
    """The statements of this connection, without BEGIN and COMMIT; fails on any savepoint."""
    sent: list[str] = []
    with CaptureQueriesContext(connections[config().database]) as captured:
        yield sent
    for query in captured.captured_queries:
        sql = query["sql"].strip()
        assert "SAVEPOINT" not in sql.upper()
        if sql.split()[0].upper().rstrip(";") not in ("BEGIN", "COMMIT", "ROLLBACK"):
            sent.append(sql)


def eventually(look: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Look until there is something; what other processes do has no event to wait for."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
    return found


def in_thread(work: Callable[..., Any], *args: Any) -> Any:
    """Run something on another connection and give back what it returned or raised."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_closing, work, *args).result()


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run something on `count` other connections at once, started together."""
    start = threading.Barrier(count)

    def run(number: int) -> Any:
        connections[config().database].ensure_connection()
        start.wait(30)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return [future.result() for future in [pool.submit(_closing, run, number) for number in range(count)]]


def _closing(work: Callable[..., Any], *args: Any) -> Any:
    try:
        return work(*args)
    finally:
        connections.close_all()
