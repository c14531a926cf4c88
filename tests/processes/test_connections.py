"""How many connections a real worker opens, as docs/howto/scale.md states it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.simulate_report import per_host
from djqueue import kv
from djqueue.sql import statements
from tests.tools import eventually
from tests.worker import tasks

pytestmark = pytest.mark.databases("postgresql")

NAME = "worker under test"
ENVIRONMENT = {"PGAPPNAME": NAME}
PAGE = Path(__file__).parents[2] / "docs/howto/scale.md"


def opened() -> int:
    return int(statements().fetch("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [NAME])[0][0])


class Watched:
    """Wait for events, and note the highest number of connections meanwhile."""

    def __init__(self) -> None:
        self.most = 0

    def until(self, condition: Callable[[], bool]) -> None:
        def look() -> bool:
            self.most = max(self.most, opened())
            return condition()

        eventually(look, 60)


def use_all_threads(running, threads: int, gate: str, connections: int) -> Watched:
    """Run a job in every thread at the same time, and wait until all of them are done.

    They end when there are so many connections: the supervisor looks at running jobs a few times per second.
    """
    watched = Watched()
    handles = [tasks.wait_with_a_connection.enqueue(gate) for _ in range(threads)]
    watched.until(lambda: running.started(handles) == threads)
    watched.until(lambda: opened() >= connections)
    kv.set(gate, True)
    watched.until(lambda: all(running.events()["completed", str(handle.id), 1] for handle in handles))
    return watched


def open_all(running, threads: int, connections: int, processes: int = 1) -> Watched:
    """Make the worker open all its connections.

    A process settles its first job, and opens the connection for that, when the job ends. Those of the start may still
    be counted with the first jobs, so the second ones have to wait for all.
    """
    use_all_threads(running, threads, "first", connections - processes)
    watched = use_all_threads(running, threads, "second", connections)
    eventually(lambda: opened() == connections, 60)
    return watched


@pytest.mark.parametrize(("processes", "threads"), [(1, 1), (1, 4), (2, 3), (3, 2)])
def test_a_worker_opens_the_documented_number_of_connections(site, processes, threads):
    running = site.start_ready("--threads", str(threads), processes=processes, env=ENVIRONMENT)
    eventually(lambda: opened() == 3 + 2 * processes, 60)
    # Idle threads keep their connections, and the next jobs use the same.
    all_opened = per_host(processes, threads)
    assert open_all(running, processes * threads, all_opened, processes).most == all_opened


def test_a_worker_without_maintenance_opens_two_connections_less(site):
    running = site.start_ready("--threads", "2", "--no-maintenance", env=ENVIRONMENT)
    open_all(running, 2, per_host(1, 2) - 2)


def test_a_worker_that_polls_has_no_connections_for_listen(site):
    running = site.start_ready("--threads", "2", env=ENVIRONMENT, NOTIFY=False)
    open_all(running, 2, per_host(1, 2) - 2)


def test_a_single_process_shares_its_listener(site):
    running = site.start("--processes", "0", "--threads", "3", env=ENVIRONMENT)
    open_all(running, 3, per_host(1, 3) - 1)


def test_each_running_coroutine_that_uses_the_orm_has_one_more_connection(site):
    running = site.start_ready("--threads", "2", env=ENVIRONMENT)
    open_all(running, 2, per_host(1, 2))
    handles = [tasks.await_with_a_connection.enqueue("another gate") for _ in range(7)]
    eventually(lambda: opened() == per_host(1, 2) + 7, 60)
    kv.set("another gate", True)
    eventually(lambda: all(running.events()["completed", str(handle.id), 1] for handle in handles), 60)
    eventually(lambda: opened() == per_host(1, 2), 60)


def test_a_crash_adds_one_connection_to_the_supervisor(site):
    running = site.start_ready("--threads", "1", env=ENVIRONMENT)
    suspect = tasks.wait_with_a_connection.enqueue("gate")
    eventually(lambda: running.started([suspect]) == 1 and opened() == per_host(1, 1) - 1, 60)
    [process] = running.workers()
    os.kill(process, signal.SIGKILL)
    kv.set("gate", True)
    running.wait_for_log("quarantined")
    eventually(lambda: running.events()["completed", str(suspect.id), 2] == 1, 60)
    # The quarantine exits after a few seconds. The new process has two connections, and that of the thread in which it
    # has sent the signal of the failed attempt.
    eventually(lambda: opened() == 5 + 3, 60)


def test_the_page_states_the_formula():
    assert "4 + processes × (3 + threads)" in PAGE.read_text()  # noqa: RUF001
