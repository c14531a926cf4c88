"""What many tests need: rows, clocks, statements, and work beside the test's own connection."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import connections
from django.test.utils import CaptureQueriesContext

import djqueue
from djqueue.conf import config
from djqueue.core.records import ClaimRequest
from djqueue.models import DeadJob, DoneJob, Job
from djqueue.sql import statements

# SQLite locks the file: a connection that finds it locked waits.
WITH_ROW_LOCKS = (
    "postgresql",
    "postgresql_pool",
    "postgresql_bound",
    "postgresql_repeatable",
    "postgresql_pgbouncer",
    "mysql",
)


# Seconds to wait for what must happen: on a busy machine a commit or the start of a process may take many of them.
PATIENCE = 60.0


def rows(model: Any) -> Any:
    return model._base_manager.using(config().database)


def live(job_id: UUID) -> Job:
    return rows(Job).get(pk=job_id)


def database_now() -> datetime:
    return statements().now()


def claim_request(wants: dict[str, int], limit: int | None = None, **more: Any) -> ClaimRequest:
    """A claim whose first job alone starts at once, from queues with one lease."""
    usual = {"leases": dict.fromkeys(wants, 30.0), "task_leases": {}, "lease": None, "marks": {}, "begin": 1}
    limit = sum(wants.values()) if limit is None else limit
    return ClaimRequest(wants=wants, limit=limit, token=uuid4(), worker="w", **usual | more)


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
        if sql.split()[0].upper() not in ("BEGIN", "COMMIT", "ROLLBACK"):
            sent.append(sql)


class Clock:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def eventually(look: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Look until there is something; what other processes do has no event to wait for."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
    return found


def waits_for_a_lock(database: str) -> bool:
    """Whether a session of this PostgreSQL or MariaDB database waits for a lock, asked on another connection."""

    def ask() -> bool:
        with connections[database].cursor() as cursor:
            if database != "mysql":
                cursor.execute(
                    "SELECT count(*) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
                )
                return cursor.fetchone()[0] > 0
            # Not innodb_trx: it shows an old state while it is read more than ten times a second.
            cursor.execute("SHOW ENGINE INNODB STATUS")
            transactions = cursor.fetchone()[2].partition("LIST OF TRANSACTIONS")[2]
            name = re.escape(connections[database].settings_dict["NAME"])
            return re.search(rf"of table `{name}`\.[^\n]* waiting", transactions) is not None

    return in_thread(ask)


def notifications(listening: Any) -> list[str]:
    """Return what was notified before now: a connection hears of commits in their order, its own among them."""
    listening.connection.execute("NOTIFY djqueue_pending, 'the last one'")
    found = []
    for one in listening.connection.notifies(timeout=PATIENCE):
        if one.payload == "the last one":
            return sorted(found)
        found.append(f"{one.channel}:{one.payload}")
    raise AssertionError("the last notification did not arrive")


def in_thread(work: Callable[..., Any], *args: Any) -> Any:
    """Run something on another connection and give back what it returned or raised.

    Something that waits for a lock of the caller fails after a while, which lets go of the lock, instead of hanging.
    """
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(_closing(work, *args))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result(2 * PATIENCE)


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
