from __future__ import annotations

import gc
import os
import threading
import traceback
import warnings
from collections.abc import Callable

import pytest
from django.db import connections

from djqueue.worker import os_process
from tests.tools import PATIENCE, in_thread

SESSION = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}


def session(database: str) -> int:
    with connections[database].cursor() as cursor:
        cursor.execute(SESSION[connections[database].vendor])
        return cursor.fetchone()[0]


def in_fork(work: Callable[[], bool]) -> bool:
    """Call a function in a forked process, and return what it returned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the tests have threads
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if work() else 1
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.databases("postgresql", "mysql")
def test_a_forked_process_leaves_the_connections_of_other_threads_open(database):
    """Their wrappers are garbage there: the thread is not, and with it its connections."""
    connected, forked, seen = threading.Event(), threading.Event(), []

    def keep_a_connection() -> None:
        seen.append(session(database))
        connected.set()
        assert forked.wait(PATIENCE)
        seen.append(session(database))

    thread = threading.Thread(target=in_thread, args=[keep_a_connection])
    thread.start()
    assert connected.wait(PATIENCE)
    try:
        assert in_fork(lambda: gc.collect() >= 0)
    finally:
        forked.set()
        thread.join()
    assert len(seen) == 2
    assert seen[0] == seen[1]


@pytest.mark.databases("postgresql", "postgresql_pool", "mysql")
def test_a_forked_process_connects_by_itself(database):
    own = session(database)

    def child() -> bool:
        other = session(database)
        connections[database].close()
        return other != own

    assert in_fork(child)
    assert session(database) == own


def test_a_fork_leaves_nothing_behind_in_the_parent():
    before = len(os_process._of_parent)
    assert in_fork(lambda: len(os_process._of_parent) > before)
    assert len(os_process._of_parent) == before
