"""A database that is restarted, that ends sessions, and that is read-only, under load (FAILURES 16)."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import DatabaseError, InterfaceError, connections

from djqueue import call
from djqueue.models import DeadJob, DoneJob, Job
from tests import postgres
from tests.tools import database_now, eventually, live, rows
from tests.worker import tasks

pytestmark = [
    pytest.mark.faults,
    pytest.mark.databases("postgresql"),
    pytest.mark.skipif(not postgres.is_ours(), reason="restarts the server: unset DATABASE_URL"),
]
RESTARTS = 20
KILLS, KILL_EVERY = 120, 0.5  # a minute
READ_ONLY, LEASE = 30.0, 10
# Jobs of one measurement. A thousand take between 0.1 and 0.9 seconds, which depends on how the processes share them.
RUN = 10_000
AT_LEAST = 0.95


def again(work):
    """Repeat what fails because the connection was lost, or because the database is not available yet."""

    def tried() -> list:
        try:
            return [work()]
        except (DatabaseError, InterfaceError):
            connections["postgresql"].close()
            return []

    return eventually(tried, 120)[0]


def count_done() -> int:
    return again(lambda: rows(DoneJob).count())


def run_all(count: int) -> float:
    """Enqueue so many short jobs, and return how long it takes until all are done."""
    before = count_done()
    begin = time.monotonic()
    tasks.double.enqueue_many([call(n) for n in range(count)])
    eventually(lambda: count_done() >= before + count, 120)
    return time.monotonic() - begin


def seconds_of_a_run(runs: int) -> float:
    return statistics.median(run_all(RUN) for _ in range(runs))


def assert_as_fast(before: float) -> None:
    """Other work on the machine may slow down one measurement; a worker that is slower for good fails all."""
    measured = []
    while not measured or before / measured[-1] < AT_LEAST:
        assert len(measured) < 5, f"{RUN} jobs took {before:.2f} s before, and afterwards {measured}"
        measured.append(seconds_of_a_run(3))
    print(f"{RUN} jobs took {before:.2f} s before, and {measured[-1]:.2f} s afterwards")


def admin(*statements: str) -> None:
    """Send statements on a new connection, in no transaction."""
    connection = connections["postgresql"].copy()
    try:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
    finally:
        connection.close()


END_SESSIONS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                  WHERE backend_type = 'client backend' AND pid != pg_backend_pid() AND datname = current_database()"""


@contextmanager
def enqueuing(handles: list) -> Iterator[None]:
    """Enqueue short jobs all the time; note those whose enqueue was acknowledged."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                handles.extend(tasks.sleep.enqueue_many([call(0.001) for _ in range(20)]))
                stop.wait(0.05)
            except (DatabaseError, InterfaceError):
                connections["postgresql"].close()
                stop.wait(0.1)
        connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def assert_all_done(worker, processes: list[int], handles: list) -> None:
    """No job is lost, dead or left, and the worker has the same processes as before."""
    eventually(lambda: again(lambda: not rows(Job).exists()), 180)
    assert again(lambda: rows(DeadJob).count()) == 0
    done = again(lambda: set(rows(DoneJob).values_list("id", flat=True)))
    assert {handle.id for handle in handles} <= done
    assert worker.process.poll() is None
    assert sorted(worker.workers()) == sorted(processes), "no process has exited"


def test_the_database_is_restarted_twenty_times_under_load(database, site):
    worker = site.start_ready("--threads", "4", "-v", "0", processes=2)
    processes, handles = worker.workers(), []
    run_all(RUN)  # the first jobs are slower
    before_all = seconds_of_a_run(5)
    with enqueuing(handles):
        for turn in range(RESTARTS):
            before = count_done()
            eventually(lambda: count_done() > before + 20, 120)
            postgres.restart("immediate" if turn % 2 else "fast")
    assert_all_done(worker, processes, handles)
    print(f"{len(handles)} jobs through {RESTARTS} restarts")
    assert_as_fast(before_all)
    assert worker.stop() == 0


def test_sessions_that_are_ended_twice_a_second_for_a_minute_leave_no_trace(database, site):
    """Nothing is lost, no process exits, and afterwards the worker is as fast as before."""
    worker = site.start_ready("--threads", "4", "-v", "0", processes=2)
    processes, handles = worker.workers(), []
    run_all(RUN)  # the first jobs are slower
    before = seconds_of_a_run(5)
    with enqueuing(handles):
        for _ in range(KILLS):
            again(lambda: admin(END_SESSIONS))
            time.sleep(KILL_EVERY)
    assert_all_done(worker, processes, handles)
    assert_as_fast(before)
    assert worker.stop() == 0


def test_a_database_that_is_read_only_for_half_a_minute_under_load(database, site, tmp_path):
    """Leases expire meanwhile, because they cannot be renewed; but a job that still runs is not taken afterwards."""
    worker = site.start_ready("--threads", "4", processes=2, LEASE=LEASE, REAPER_INTERVAL=0.2)
    processes, handles = worker.workers(), []
    reapers = [site.start("--queue", "another", LEASE=LEASE, REAPER_INTERVAL=0.2) for _ in range(2)]
    eventually(lambda: all(reaper.workers() for reaper in reapers))
    running = [tasks.wait_for_file.using(max_attempts=1).enqueue(str(tmp_path / "go")) for _ in range(2)]
    eventually(lambda: worker.started(running) == 2)
    tokens = [live(handle.id).token for handle in running]
    with enqueuing(handles):
        eventually(lambda: count_done() > 100)
        # Open sessions obey it too, from their next transaction on.
        admin("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
        try:
            eventually(is_read_only)
            time.sleep(1)  # transactions that began earlier may still commit
            before = count_done()
            time.sleep(READ_ONLY)
            assert count_done() == before, "nothing was written"
            assert live(running[0].id).lease_expires_at < database_now()
        finally:
            admin("ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")
        eventually(lambda: count_done() > before + 100)
        eventually(lambda: all(live(handle.id).lease_expires_at > database_now() for handle in running))
    assert [live(handle.id).token for handle in running] == tokens
    (tmp_path / "go").touch()
    assert_all_done(worker, processes, [*handles, *running])
    assert worker.stop() == 0


def is_read_only() -> bool:
    """Whether a statement that writes is refused."""
    try:
        with connections["postgresql"].cursor() as cursor:
            cursor.execute("DELETE FROM djqueue_kv")
    except DatabaseError as error:
        return "read-only" in str(error)
    return False
