"""A worker of threads beside locks, broken log handlers and earlier cancel requests."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.db import InterfaceError, InternalError, OperationalError, connections, transaction
from django.db.backends.signals import connection_created

import djqueue
from djqueue import call
from djqueue.core.log import logger
from djqueue.models import DoneJob, Job
from djqueue.waiting.listener import listener
from djqueue.worker.options import Options
from djqueue.worker.outages import Outages, is_outage
from djqueue.worker.process.budget import COROUTINES
from djqueue.worker.process.completer import Completer
from djqueue.worker.single_process import SingleProcess
from djqueue.worker.threads import VitalThread
from tests.tools import PATIENCE, WITH_ROW_LOCKS, claim_one, eventually, in_thread, rows
from tests.worker import tasks
from tests.worker.process.test_worker import burst, gate, running  # noqa: F401 - gate is a fixture


def with_cause(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


PLAIN = ("postgresql", "sqlite", "mysql")
pytestmark = pytest.mark.databases(*PLAIN)


def test_a_coroutine_that_was_to_be_cancelled_in_an_earlier_attempt_is_cancelled(database):
    handle = tasks.asleep.enqueue(60)
    claim_one(lease=0)
    assert handle.cancel() is djqueue.CancelOutcome.REQUESTED
    assert djqueue.maintenance.reap() == 1
    burst()
    assert (handle.status(), handle.job().attempts) == ("cancelled", 2)


def test_a_coroutine_may_refuse_to_be_cancelled_in_a_later_attempt_too(database):
    handle = tasks.refuse_to_be_cancelled.enqueue()
    claim_one(lease=0)
    handle.cancel()
    djqueue.maintenance.reap()
    burst()
    assert (handle.status(), handle.job().result) == ("done", "went on")


@pytest.mark.databases(*(set(PLAIN) & set(WITH_ROW_LOCKS)))
def test_a_row_that_a_user_has_locked_delays_no_other_job(database):
    """As a dedup hit does it, in a long transaction, with the row of a running job."""
    with running(Options(threads=4)):
        locked = tasks.sleep.enqueue(1)
        eventually(lambda: locked.status() == "claimed")
        with transaction.atomic(using=database):
            rows(Job).select_for_update().get(pk=locked.id)
            time.sleep(1.5)  # so that it has ended, and its outcome waits for the lock
            # Many, so that some of them are neighbours of the locked one in every index.
            quick = in_thread(lambda: tasks.double.enqueue_many([call(n) for n in range(600)]))
            in_thread(lambda: eventually(lambda: rows(DoneJob).count() == len(quick)))
            assert in_thread(locked.status) == "claimed"
        assert locked.wait(PATIENCE).record.attempts == 1


def test_a_log_handler_that_raises_stops_nothing(database, capsys):
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ValueError("the disk of the log is full")

    handler = Broken()
    plain = logging.getLogger("djqueue")
    level = plain.level
    plain.addHandler(handler)
    plain.setLevel(logging.INFO)
    try:
        handles = tasks.double.enqueue_many([call(n) for n in range(20)])
        assert burst() == 0
    finally:
        plain.removeHandler(handler)
        plain.setLevel(level)
    assert {handle.status() for handle in handles} == {"done"}
    assert "the disk of the log is full" in capsys.readouterr().err


def test_the_logger_names_the_line_that_logged(caplog):
    with caplog.at_level(logging.INFO, logger="djqueue"):
        logger.info("here")
    assert caplog.records[0].filename == "test_edges.py"


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_vital_thread_that_raises_is_reported(error):
    ended = threading.Event()

    def work() -> None:
        raise error

    thread = VitalThread(work, "vital", lambda name: ended.set())
    thread.start()
    assert ended.wait(PATIENCE)


def test_a_worker_that_has_lost_a_vital_thread_drains_and_has_the_exit_code_1(database):
    worker = SingleProcess(Options())
    with ThreadPoolExecutor(1) as pool:
        code = pool.submit(worker.run)
        running = tasks.sleep.enqueue(0.5)
        eventually(lambda: worker.worker.in_hand.counts.running)
        VitalThread(lambda: 1 / 0, "vital", worker._lost_thread).start()
        assert code.result(PATIENCE) == 1
    assert running.status() == "done"


@pytest.fixture
def given_back(monkeypatch):
    """The jobs that a worker of this process has given back."""
    found = []

    def note(self, holdings):
        holdings = list(holdings)
        found.extend(holdings)
        give_back(self, holdings)

    give_back = Completer.give_back
    monkeypatch.setattr(Completer, "give_back", note)
    return found


def test_jobs_that_wait_behind_long_ones_are_given_back(database, gate, given_back):  # noqa: F811
    """Another worker may have a thread for them."""
    queue = djqueue.Queue("work")
    queue.pause()
    with running(Options(threads=1)) as worker:
        assert tasks.double.enqueue(1).wait(PATIENCE).completed
        worker.worker.in_hand.counts.average = 0.0005  # as if it had learnt that they are short
        tasks.hold.using(queue="work", priority=1).enqueue()
        tasks.double.using(queue="work").enqueue_many([call(n) for n in range(20)])
        queue.resume()
        eventually(lambda: len(given_back) >= 20)
        eventually(lambda: rows(Job).filter(status="pending", attempts=0, started=False).count() == 20)
        gate.set()


def test_jobs_that_are_longer_than_those_before_are_given_back(database, given_back):
    """They were claimed by the hundred; another worker may have threads for them."""
    queue = djqueue.Queue("work")
    queue.pause()
    with running(Options(threads=1)) as worker:
        assert tasks.double.enqueue(1).wait(PATIENCE).completed
        worker.worker.in_hand.counts.average = 0.0005  # as if it had learnt that they are short
        tasks.sleep.using(queue="work").enqueue_many([call(0.1) for _ in range(100)])
        queue.resume()
        eventually(lambda: len(given_back) > 50)
        claims, done = worker.worker.claimer.queues.claims, rows(DoneJob).count()
        eventually(lambda: rows(DoneJob).count() >= done + 10)
        assert worker.worker.claimer.queues.claims - claims <= 30, "it claims what it can start soon"


@pytest.mark.databases("postgresql")
def test_coroutines_that_wait_behind_long_ones_are_given_back(database, gate, given_back):  # noqa: F811
    """Another worker may have room for them."""
    queue = djqueue.Queue("work")
    queue.pause()
    with running(Options(threads=1)) as worker:
        assert tasks.adouble.enqueue(1).wait(PATIENCE).completed
        worker.worker.in_hand.counts.loop_average = 0.001  # as if it had learnt that they are short
        handles = tasks.ahold.using(queue="work").enqueue_many([call() for _ in range(COROUTINES + 20)])
        queue.resume()
        eventually(lambda: len(given_back) >= 20)
        eventually(lambda: rows(Job).filter(status="pending", attempts=0, started=False).count() == 20)
        gate.set()
        assert {handle.wait(PATIENCE).record.attempts for handle in handles} == {1}


@pytest.mark.databases("sqlite")
def test_plain_jobs_run_beside_a_full_event_loop(database, gate):  # noqa: F811
    """Both kinds are in one queue, so what is claimed for the threads may be more coroutines."""
    with running(Options(threads=4)) as worker:
        assert tasks.double.enqueue(1).wait(PATIENCE).completed
        tasks.ahold.enqueue_many([call() for _ in range(COROUTINES + 60)])
        eventually(lambda: worker.worker.in_hand.counts.running_in_loop == COROUTINES)
        time.sleep(0.7)  # so that those that wait have waited for too long
        claims, since = worker.worker.claimer.queues.claims, time.monotonic()
        handles = tasks.double.using(priority=1).enqueue_many([call(n) for n in range(5)])
        assert all(handle.wait(PATIENCE).completed for handle in handles)
        seconds = time.monotonic() - since
        assert worker.worker.claimer.queues.claims - claims < 20 + 10 * seconds, "it does not claim all the time"
        gate.set()


def test_a_coroutine_with_a_bad_timeout_is_not_taken_back(database):
    """Its row was changed by hand; it fails before it starts, and a drain must not look for it."""
    with running(Options(threads=1)) as worker:
        worker.worker.be_quiet(True)
        handle = tasks.adouble.using(max_attempts=1).enqueue(1)
        rows(Job).filter(id=handle.id).update(timeout=-1)
        worker.worker.be_quiet(False)
        assert handle.wait(PATIENCE).record.status == "dead"
        assert worker.worker.pool.take_back() == []


def test_only_jobs_that_start_at_once_are_marked_as_started(database):
    """The others may lose their worker without having run."""
    with running(Options(threads=1)):
        first = tasks.sleep.using(priority=1).enqueue(1)
        eventually(lambda: first.status() == "claimed")
        later = tasks.sleep.enqueue(0.2)
        eventually(lambda: first.status() == "done")
        assert later.wait(PATIENCE).record.attempts == 1
    assert rows(Job).count() == 0


def test_taking_back_from_a_blocked_loop_loses_no_job(database, gate):  # noqa: F811
    """More coroutines than places, and one of them holds up the loop for longer than the request waits."""
    with running(Options(threads=1)) as worker:
        blocker = tasks.block_the_loop.enqueue()
        eventually(lambda: tasks.kv.get("blocking"))
        handles = tasks.adouble.enqueue_many([call(n) for n in range(150)])
        eventually(lambda: rows(Job).filter(status="claimed").count() > 50)
        for _ in range(2):
            worker.worker.completer.give_back(worker.worker.pool.take_back())
        gate.set()
        results = [handle.wait(PATIENCE).record for handle in [blocker, *handles]]
    assert {(record.status, record.attempts) for record in results} == {("done", 1)}
    assert worker.worker.in_hand.counts.for_loop == 0


@pytest.mark.databases("postgresql")
def test_a_stop_just_before_the_wakeup_is_cleared_is_not_missed(database):
    """An idle claimer would otherwise wait until the listener polls."""
    worker = SingleProcess(Options(threads=1))
    claimer = worker.worker.claimer

    armed = threading.Event()

    class StopFirst(threading.Event):
        def clear(self) -> None:
            if armed.is_set():
                worker.worker.drain("a test")
            super().clear()

    claimer.wakeup = StopFirst()
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        eventually(lambda: listener().is_well)
        time.sleep(1.0)  # until it waits for a wake-up, and not only for a moment
        armed.set()
        claimer.wakeup.set()
        thread.join(3)
        assert not thread.is_alive()
    finally:
        armed.clear()
        worker.worker.drain("the end of the test")
        thread.join(20)


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        (OperationalError("connection refused"), False),
        (with_cause(OperationalError("x"), psycopg.OperationalError("server closed the connection")), True),
        (with_cause(OperationalError("x"), psycopg.errors.AdminShutdown("x")), True),
        (with_cause(OperationalError("x"), psycopg.errors.QueryCanceled("x")), True),
        (with_cause(OperationalError("x"), psycopg.errors.LockNotAvailable("x")), False),
        (with_cause(InternalError("x"), psycopg.errors.ReadOnlySqlTransaction("x")), True),
        (with_cause(InternalError("x"), psycopg.errors.InFailedSqlTransaction("x")), False),
        (OperationalError(2006, "server has gone away"), True),
        (OperationalError(1047, "WSREP has not yet prepared node for application use"), True),
        (OperationalError(1054, "unknown column"), False),
        (InterfaceError("connection already closed"), True),
        (ValueError("x"), False),
    ],
)
def test_only_what_others_may_share_counts_as_an_outage(error, outage):
    """A loop that fails for a reason of its own must not stop the reaper for ever."""
    assert is_outage(error) is outage


@pytest.mark.databases("postgresql")
def test_watching_a_connection_leaves_the_wrappers_of_the_project_alone(database):
    """As instrumentation adds them when a connection is made, perhaps during a statement of the worker."""

    def wrapper(execute, sql, params, many, context):
        return execute(sql, params, many, context)

    def install(connection, **kwargs):
        connection.execute_wrappers.append(wrapper)

    def look() -> list[object]:
        connection_created.connect(install)
        try:
            with Outages(pytest.fail).watching("a test"):
                rows(Job).count()
            return list(connections[database].execute_wrappers)
        finally:
            connection_created.disconnect(install)

    assert in_thread(look) == [wrapper]
