"""A real worker in threads beside the test."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

from djqueue.conf import config, whole
from djqueue.exceptions import DjqueueError, InvalidOption
from djqueue.waiting.listener import listener
from djqueue.worker import databases
from djqueue.worker.options import Options

# Seconds that jobs may run after the end of the test, and that the threads have to end.
GRACE = 5.0


@contextmanager
def worker(
    *,
    queues: Iterable[str] = (),
    exclude: Iterable[str] = (),
    threads: int = 4,
    scheduler: bool = True,
    maintenance: bool = True,
) -> Iterator[None]:
    """Run a worker in threads of this process until the block ends. The options mean what they mean for runworker.

    For tests that commit: TransactionTestCase, LiveServerTestCase, `transactional_db`. Raise DjqueueError if the worker
    could not see the test's jobs: in a transaction, or with SQLite in memory.
    """
    from djqueue.worker.single_process import SingleProcess  # imports the models

    _check_connection()
    for name, value in {"queues": queues, "exclude": exclude}.items():
        if isinstance(value, str):
            raise InvalidOption(f"{name} must be a list of names, got {value!r}")
    chosen = Options(
        processes=0,
        queues=dict.fromkeys(queues),
        exclude=list(exclude),
        threads=whole(threads, "threads"),
        scheduler=scheduler,
        maintenance=maintenance,
    )
    with databases.prepared():
        process = SingleProcess(chosen)
        thread = threading.Thread(target=process.run, name="djqueue-test-worker", daemon=True)
        thread.start()
        try:
            yield
        finally:
            process.worker.drain("the test has ended", GRACE)
            thread.join(2 * GRACE)
            # It closes its connection when no worker needs it any more; until then the database cannot be dropped.
            if (listening := listener().thread) is not None:
                listening.join(GRACE)
    if thread.is_alive():
        raise DjqueueError(f"The worker has not stopped within {2 * GRACE:g} seconds; a task may still be running.")
    if process.failed:
        raise DjqueueError("The worker failed; the reason is in the log of the logger 'djqueue'.")


def _check_connection() -> None:
    connection: Any = connections[config().database]
    if connection.in_atomic_block:
        raise DjqueueError(
            "A worker in threads does not see the jobs of a test that runs in a transaction. Use TransactionTestCase "
            "or transactional_db, or djqueue.testing.run_pending()."
        )
    if connection.vendor == "sqlite" and connection.is_in_memory_db():
        raise DjqueueError(
            "A worker in threads cannot share SQLite's database in memory with the test: their statements would fail "
            f'with "table is locked". Set DATABASES[{connection.alias!r}]["TEST"] = {{"NAME": "test.sqlite3"}}, or use '
            "djqueue.testing.run_pending()."
        )
