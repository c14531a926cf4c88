"""Jobs that end their process, their worker or a thread of it: blamed fairly, never run more often than allowed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter

import pytest
from django.db import connections, transaction

from djqueue import call
from djqueue.models import DoneJob, Job
from tests.tools import eventually, in_thread, live, rows
from tests.worker import tasks

pytestmark = pytest.mark.databases("postgresql")
ROUNDS = int(os.environ.get("DJQUEUE_TEST_ROUNDS", "6"))


@pytest.mark.databases("postgresql", "sqlite", "mysql")
@pytest.mark.parametrize("retry", ["one attempt", "no retry"])
def test_a_job_allowed_one_run_never_has_a_second(database, site, tmp_path, retry):
    """Everything is killed at a random moment, again and again; the tasks' own ledger counts the runs."""
    ledger = tmp_path / "ledger"
    ledger.touch()
    options = {"max_attempts": 1} if retry == "one attempt" else {"retry": tasks.djqueue.NoRetry()}
    for turn in range(ROUNDS):
        worker = site.start_ready("--threads", "2", LEASE=1, REAPER_INTERVAL=0.2)
        calls = [call(str(ledger), random.choice([0, 0.05, 0.5])) for _ in range(random.choice([1, 3, 20]))]
        tasks.note_run.using(lease=1, **options).enqueue_many(calls)
        time.sleep(random.uniform(0, 0.3) if turn % 2 else random.uniform(0, 1.5))
        worker.signal_all(signal.SIGKILL)
        worker.process.wait()
    site.start_ready("--threads", "2", LEASE=1, REAPER_INTERVAL=0.2)
    eventually(lambda: not rows(Job).exists(), 60)
    runs = Counter(ledger.read_text().split())
    assert max(runs.values()) == 1, runs.most_common(3)


def test_a_job_with_three_attempts_runs_three_times_at_most(database, site, tmp_path):
    """Also when the worker dies before the job could be marked as started."""
    ledger = tmp_path / "ledger"
    ledger.touch()
    handle = tasks.note_run.using(lease=1, max_attempts=3).enqueue(str(ledger), 30)
    for _ in range(5):
        before = len(ledger.read_text().split())
        worker = site.start("--threads", "2", LEASE=1, REAPER_INTERVAL=0.2)
        eventually(lambda: len(ledger.read_text().split()) > before or handle.status() == "dead", 30)
        worker.signal_all(signal.SIGKILL)
        worker.process.wait()
    assert len(ledger.read_text().split()) == 3
    assert (handle.status(), handle.job().attempts) == ("dead", 3)


def test_what_had_ended_when_its_process_died_keeps_its_outcome(database, site):
    """Their rows are locked, so that nothing can be written before the process is killed."""
    worker = site.start_ready("--threads", "4")
    good = [tasks.sleep.using(max_attempts=1).enqueue(1) for _ in range(2)]
    bad = tasks.raise_it.using(max_attempts=1, delay=0).enqueue("permanent")
    slow = tasks.sleep.enqueue(30)
    eventually(lambda: rows(Job).filter(status="claimed").count() == 3, 30)
    assert bad.wait(30).record.status == "dead"
    with transaction.atomic(using=database):
        list(rows(Job).select_for_update())
        time.sleep(2)  # they have ended by now; it cannot be observed
        [pid] = worker.workers()
        os.kill(pid, signal.SIGKILL)
        worker.wait_for_log("worker process killed by signal 9")
    for handle in good:
        record = handle.wait(20).record
        assert (record.status, record.attempts, record.errors, record.result) == ("done", 1, [], 1)
    assert len(eventually(lambda: slow.job().errors, 20)) == 1


def test_jobs_that_had_ended_and_were_not_written_are_not_blamed(database, site, tmp_path):
    """The table of done jobs is locked while two hundred jobs of one attempt end, and their process is killed."""
    ledger = tmp_path / "ledger"
    ledger.touch()
    worker = site.start_ready("--threads", "8")
    [pid] = worker.workers()
    with transaction.atomic(using=database):
        with connections[database].cursor() as cursor:
            cursor.execute("LOCK TABLE djqueue_donejob IN EXCLUSIVE MODE")

        def enqueue_and_kill() -> None:
            tasks.note_run.using(max_attempts=1).enqueue_many([call(str(ledger), 0) for _ in range(200)])
            eventually(lambda: len(ledger.read_text().split()) == 200, 60)
            time.sleep(0.5)  # so that the last of them has ended too
            os.kill(pid, signal.SIGKILL)
            worker.wait_for_log("worker process killed by signal 9")

        in_thread(enqueue_and_kill)
    eventually(lambda: not rows(Job).exists(), 60)
    assert rows(DoneJob).filter(status="done", attempts=1, errors="").count() == 200
    assert max(Counter(ledger.read_text().split()).values()) == 1


def test_ended_jobs_are_settled_by_their_outcome_after_a_drain_that_could_not_write(database, site):
    worker = site.start_ready("--threads", "4", SHUTDOWN_GRACE=1)
    handles = tasks.sleep.enqueue_many([call(0.5) for _ in range(4)])
    eventually(lambda: rows(Job).filter(status="claimed").count() == 4, 30)
    with transaction.atomic(using=database):
        list(rows(Job).select_for_update())
        worker.process.send_signal(signal.SIGTERM)
        worker.wait_for_log("reason='SIGTERM'")
        time.sleep(5)  # longer than the grace
    assert worker.process.wait(30) == 0
    assert [(handle.status(), handle.job().attempts) for handle in handles] == [("done", 1)] * 4


@pytest.mark.parametrize("how", ["exit 0", "kill the fork server"])
def test_every_way_to_end_a_process_is_blamed(database, site, how):
    handle = tasks.end_its_process.using(max_attempts=3).enqueue(how)
    worker = site.start("--threads", "2")
    record = handle.wait(60).record
    assert (record.status, record.attempts, len(record.errors)) == ("dead", 3, 3)
    assert record.last_error.startswith("worker process ")
    assert tasks.double.enqueue(4).wait(30).record.result == 8
    assert worker.stop() == 0


@pytest.mark.parametrize("name", ["djqueue-completer", "djqueue-run-1", "djqueue-link", "djqueue-loop"])
def test_a_process_that_loses_a_thread_is_replaced(database, site, name):
    site.start_ready("--threads", "2", BACKOFF_BASE=0.1)
    handle = tasks.end_a_thread.enqueue(name)
    others = tasks.double.using(delay=2).enqueue_many([call(n) for n in range(5)])  # something for the thread to do
    [coroutine] = tasks.adouble.using(delay=2).enqueue_many([call(4)])
    assert handle.wait(60).record.result == "survived"
    assert [other.wait(30).record.status for other in [*others, coroutine]] == ["done"] * 6


def test_suspects_take_no_thread_from_other_jobs(database, site):
    """Four jobs were killed together: each is run alone, elsewhere, while all threads work for the others."""
    worker = site.start_ready("--threads", "4", BACKOFF_BASE=0.1, BACKOFF_JITTER=0)
    suspects = tasks.sleep_unless_crashed.enqueue_many([call(10) for _ in range(4)])
    eventually(lambda: rows(Job).filter(status="claimed", started=True).count() == 4, 30)
    [pid] = worker.workers()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: rows(Job).filter(crashes=1).count() == 4, 30)
    meetings = [handle.wait(60).record for handle in tasks.meet.enqueue_many([call(4) for _ in range(40)])]
    assert rows(Job).filter(crashes=1).exists(), "no suspect was left beside which the others could run"
    results = [handle.wait(90).record.result.split() for handle in suspects]
    assert [attempt for attempt, _ in results] == ["2"] * 4
    assert {record.status for record in meetings} == {"done"}
    assert not {int(process) for _, process in results} & {record.result for record in meetings}
    assert worker.stop() == 0


def test_suspects_that_wait_are_given_back_at_the_end(database, site):
    worker = site.start_ready("--threads", "2", BACKOFF_BASE=0, SHUTDOWN_GRACE=2)
    handles = tasks.sleep.enqueue_many([call(120) for _ in range(2)])
    eventually(lambda: rows(Job).filter(status="claimed").count() == 2, 30)
    time.sleep(0.3)
    os.kill(worker.workers()[0], signal.SIGKILL)
    eventually(lambda: rows(Job).filter(crashes=1, status="claimed", started=True).count() >= 1, 30)
    assert worker.stop(seconds=90) == 0
    assert [live(handle.id).status for handle in handles] == ["pending"] * 2
    assert {live(handle.id).attempts for handle in handles} == {1}
    connections.close_all()
