"""The database, or the machine, stands still and raises no error: no living job is taken.

DJQUEUE_TEST_STALL=45 DJQUEUE_TEST_LEASE=30 repeats it with the defaults of a production site.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager

import pytest
from django.db import connections

import djqueue
from djqueue import call
from djqueue.models import DoneJob, Worker
from tests import postgres
from tests.tools import eventually, rows
from tests.worker import tasks

STALL = float(os.environ.get("DJQUEUE_TEST_STALL", "15"))
LEASE = float(os.environ.get("DJQUEUE_TEST_LEASE", "12"))
LONG = 600  # seconds: longer than any test


@contextmanager
def locked_table(alias: str):
    """As a migration does it, on another connection."""
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with connections[alias].cursor() as cursor:
            if connections[alias].vendor == "mysql":
                cursor.execute("LOCK TABLES djqueue_job WRITE")
            else:
                cursor.execute("BEGIN; LOCK TABLE djqueue_job IN ACCESS EXCLUSIVE MODE")
            locked.set()
            done.wait()
            cursor.execute("UNLOCK TABLES" if connections[alias].vendor == "mysql" else "ROLLBACK")
        connections.close_all()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert locked.wait(60)
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def frozen_server(alias: str):
    postgres.signal_all(signal.SIGSTOP)
    try:
        yield
    finally:
        postgres.signal_all(signal.SIGCONT)


def stall(how: str, alias: str, workers: list) -> None:
    match how:
        case "freeze":
            with frozen_server(alias):
                time.sleep(STALL)
        case "lock":
            with locked_table(alias):
                time.sleep(STALL)
        case "stop":
            for worker in workers:
                worker.signal_all(signal.SIGSTOP)
            time.sleep(STALL)
            for worker in workers:
                worker.signal_all(signal.SIGCONT)


@pytest.mark.databases("postgresql", "mysql")
@pytest.mark.parametrize("how", ["freeze", "lock", "stop"])
def test_no_living_job_is_taken_after_a_stall(database, site, how, tmp_path):
    """Eight jobs run through a stall that is longer than their leases; each of them runs once."""
    if how == "freeze" and (database != "postgresql" or not postgres.is_ours()):
        pytest.skip("stops the server: PostgreSQL without DATABASE_URL")
    ledger = tmp_path / "ledger"
    workers = [site.start_ready("--threads", "4", LEASE=LEASE, REAPER_INTERVAL=0.5) for _ in range(1)]
    workers.append(site.start("--threads", "4", LEASE=LEASE, REAPER_INTERVAL=0.5))
    eventually(lambda: rows(Worker).filter(stopped_at=None).count() == 2, 60)
    handles = tasks.note_run.using(max_attempts=1).enqueue_many(
        [call(str(ledger), STALL + LEASE + 4) for _ in range(8)]
    )
    eventually(lambda: ledger.exists() and len(ledger.read_text().splitlines()) == 8)
    stall(how, database, workers)
    eventually(lambda: rows(DoneJob).count() == 8, STALL + 3 * LEASE + 100)
    assert Counter(ledger.read_text().split()) == {str(handle.id): 1 for handle in handles}
    assert {handle.job().attempts for handle in handles} == {1}


@pytest.mark.databases("postgresql", "mysql")
def test_what_a_lost_worker_held_is_reaped_while_another_lives(database, site, tmp_path):
    """The caution after a stall does not stop the reaping of jobs whose worker is really gone."""
    ledger = tmp_path / "ledger"
    site.start_ready("--queue", "another", LEASE=6, REAPER_INTERVAL=0.5)
    lost = site.start("--threads", "1", LEASE=6, REAPER_INTERVAL=0.5)
    handle = tasks.note_run.enqueue(str(ledger), 600)
    eventually(ledger.exists)
    lost.signal_all(signal.SIGKILL)
    eventually(lambda: handle.status() in ("scheduled", "pending"), 120)
    assert (handle.job().attempts, handle.job().last_error) == (1, "lease expired")


@pytest.mark.databases("postgresql")
def test_a_connection_that_is_never_answered_is_given_up(database, site, proxy, tmp_path):
    """What is connected now gets no answer any more, as behind a proxy that has lost its other side."""
    worker = site.start_ready("--threads", "2", LEASE=10, env={"DATABASE_URL": proxy.url})
    assert tasks.double.enqueue(1).wait(60).record.result == 2
    running = tasks.wait_for_file.enqueue(str(tmp_path / "go"))
    eventually(lambda: worker.started([running]))
    proxy.swallow(new=False)
    (tmp_path / "go").touch()
    handle = tasks.double.enqueue(21)
    assert handle.wait(100).record.result == 42
    assert running.wait(100).record.attempts == 1
    worker.wait_for_log("database does not respond")
    assert worker.stop() == 0


@pytest.mark.databases("postgresql")
def test_an_idle_worker_stops_while_nothing_is_answered(database, site, proxy):
    worker = site.start_ready(LEASE=LONG, SHUTDOWN_GRACE=LONG, env={"DATABASE_URL": proxy.url})
    proxy.swallow(new=True)
    tasks.double.enqueue(1)
    time.sleep(2)  # so that its claim is on the way; it cannot be observed
    assert worker.stop() == 0, "long before the grace, or the half of a lease, is over"


@pytest.mark.databases("postgresql")
def test_a_worker_stops_while_its_new_connections_are_not_answered(database, site, proxy):
    """A connection is made, and the first statement on it, which may be one of Django's own, gets no answer."""
    worker = site.start_ready(LEASE=LONG, SHUTDOWN_GRACE=LONG, env={"DATABASE_URL": proxy.url})
    proxy.swallow_statements = True
    proxy.cut()
    tasks.double.enqueue(1)
    time.sleep(2)  # so that it has connected again and claims; it cannot be observed
    assert worker.stop() == 0, "long before the grace, or the half of a lease, is over"


@pytest.mark.databases("postgresql")
def test_a_stopped_process_is_logged_and_shown(database, site):
    worker = site.start_ready("--threads", "1")
    handle = tasks.wait_for.enqueue("go")
    eventually(lambda: worker.started([handle]))
    [pid] = worker.workers()
    os.kill(pid, signal.SIGSTOP)
    worker.wait_for_log("process does not respond")
    assert f"pid={pid}" in worker.log()

    def is_shown() -> bool:
        row = rows(Worker).get(pid=pid)
        return (djqueue.sql.statements().now() - row.heartbeat_at).total_seconds() > 9 and row.running == 1

    eventually(is_shown)
    os.kill(pid, signal.SIGCONT)
    worker.wait_for_log("process responds again")
    djqueue.kv.set("go", True)
    assert handle.wait(60).record.attempts == 1


@pytest.mark.databases("postgresql")
def test_a_worker_whose_output_is_not_read_obeys_a_signal(database, site):
    """Its standard output is a pipe that is full."""
    readable, writable = os.pipe()
    worker = site.start("-v", "2", stdout=writable, SHUTDOWN_GRACE=5)
    try:
        tasks.double.enqueue_many([call(n) for n in range(3000)])
        eventually(lambda: not select.select([], [writable], [], 0)[1])
        worker.process.send_signal(signal.SIGTERM)
        worker.process.wait(120)
    finally:
        os.close(writable)
        os.close(readable)
