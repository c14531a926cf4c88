"""Processes that are forked: by the fork server, and by tasks (FAILURES 10, 13 and 15b)."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import pytest

from tests.tools import PATIENCE, eventually
from tests.worker import tasks as plain
from tests.worker.site import constants

from . import tasks


@pytest.mark.databases("postgresql")
def test_a_forked_process_that_hangs_before_it_is_ready_is_replaced(database, site, tmp_path):
    hung = tmp_path / "hung"
    env = {"DJQUEUE_TEST_HANG_AFTER_FORK": str(hung)} | tasks.APP | constants(READY_WITHIN=5)
    handle = plain.process_id.enqueue()
    worker = site.start("--processes", "1", env=env)
    eventually(hung.exists, 2 * PATIENCE)
    worker.wait_for_log("process not ready, replaced pid=")
    pid = int(re.findall(r"process not ready, replaced pid=(\d+)", worker.log())[0])
    assert handle.wait(60).record.result != pid
    eventually(lambda: pid not in worker.members())
    assert worker.stop() == 0


@pytest.mark.databases("postgresql", "postgresql_pool")
def test_parent_and_child_query_after_a_task_forks_with_open_connections(database, site):
    """On connections of their own, which stay the same; and the worker goes on."""
    worker = site.start_ready("--threads", "2", env=tasks.APP)
    assert plain.double.enqueue(1).wait(60).completed
    parent, child = tasks.backend_of_parent_and_child.using(max_attempts=1).enqueue().wait(60).record.result
    assert len(child) == 2, "the child has queried"
    assert not {*parent} & {*child}
    handles = [plain.count_rows.enqueue() for _ in range(20)]
    assert {handle.wait(60).record.attempts for handle in handles} == {1}
    assert worker.stop() == 0


def sockets(pid: int) -> set[str]:
    """Return the sockets that a process has open; those that it shares with another have the same number."""
    found = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            found.add(os.readlink(file))
    return {name for name in found if name.startswith("socket:")}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc, as on Linux")
@pytest.mark.databases("postgresql", "postgresql_pool")
@pytest.mark.parametrize("queries", [False, True], ids=["plain", "queries at import"])
def test_the_fork_server_has_one_thread_and_no_connection(database, site, proxy, queries):
    """Also if the project has opened a connection, or a pool with its threads, while it was imported."""
    env = {"DATABASE_URL": proxy.url} | ({"DJQUEUE_TEST_QUERY_AT_IMPORT": "1"} if queries else {})
    worker = site.start_ready("--threads", "2", env=env | tasks.APP)
    assert plain.double.enqueue(1).wait(60).completed
    others = {worker.pid, *worker.workers()}
    [forkserver] = worker.members() - others
    assert (forkserver in proxy.pids) is queries
    assert len(list(Path(f"/proc/{forkserver}/task").iterdir())) == 1
    own = sockets(forkserver)
    assert len(own) == 1, "the orders of the supervisor"
    assert not any(own & sockets(pid) for pid in others)
    assert worker.stop() == 0
