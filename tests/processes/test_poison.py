"""Jobs that end their process, their worker or a thread of it: blamed fairly, never run more often than allowed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from django.db import connections, transaction

from djqueue import call
from djqueue.jobs import JobHandle
from djqueue.models import DoneJob, Job
from tests.tools import eventually, in_thread, live, rows
from tests.worker import tasks
from tests.worker.site import constants

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
    eventually(lambda: not rows(Job).exists(), 120)
    runs = Counter(ledger.read_text().split())
    assert max(runs.values()) == 1, runs.most_common(3)


def test_a_job_with_three_attempts_runs_three_times_at_most(database, site, tmp_path):
    """Also when the worker dies before the job could be marked as started."""
    ledger = tmp_path / "ledger"
    ledger.touch()
    handle = tasks.note_run.using(lease=1, max_attempts=3).enqueue(str(ledger), 600)
    for _ in range(5):
        before = len(ledger.read_text().split())
        worker = site.start("--threads", "2", LEASE=1, REAPER_INTERVAL=0.2)
        eventually(lambda: len(ledger.read_text().split()) > before or handle.status() == "dead")
        worker.signal_all(signal.SIGKILL)
        worker.process.wait()
    assert len(ledger.read_text().split()) == 3
    assert (handle.status(), handle.job().attempts) == ("dead", 3)


def fill_threads(worker, count: int, end: Path) -> list[JobHandle]:
    """Start so many jobs, on another connection: in the threads of jobs that have ended by then."""
    handles = in_thread(lambda: tasks.wait_for_file.enqueue_many([call(str(end)) for _ in range(count)]))
    eventually(lambda: worker.started(handles) == count)
    return handles


def test_what_had_ended_when_its_process_died_keeps_its_outcome(database, site, tmp_path):
    """Their rows are locked, so that nothing can be written before the process is killed."""
    worker = site.start_ready("--threads", "3")
    bad = tasks.raise_it.using(max_attempts=1, delay=0).enqueue("permanent")
    assert bad.wait(60).record.status == "dead"
    good = [tasks.wait_for_file.using(max_attempts=1).enqueue(str(tmp_path / "go")) for _ in range(2)]
    slow = tasks.wait_for_file.enqueue(str(tmp_path / "never"))
    eventually(lambda: worker.started([*good, slow]) == 3)
    [pid] = worker.workers()
    with transaction.atomic(using=database):
        list(rows(Job).select_for_update())
        (tmp_path / "go").touch()
        fill_threads(worker, 2, tmp_path / "never")
        os.kill(pid, signal.SIGKILL)
        worker.wait_for_log("worker process killed by signal 9")
    for handle in good:
        record = handle.wait(60).record
        assert (record.status, record.attempts, record.errors, record.result) == ("done", 1, [], f"1 {pid}")
    assert len(eventually(lambda: slow.job().errors)) == 1


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
            eventually(lambda: len(ledger.read_text().split()) == 200)
            fill_threads(worker, 8, tmp_path / "go")
            os.kill(pid, signal.SIGKILL)
            worker.wait_for_log("worker process killed by signal 9")

        in_thread(enqueue_and_kill)
    (tmp_path / "go").touch()
    eventually(lambda: not rows(Job).exists(), 120)
    noted = rows(DoneJob).filter(task=tasks.note_run.name)
    assert noted.filter(status="done", attempts=1, errors="").count() == noted.count() == 200
    assert max(Counter(ledger.read_text().split()).values()) == 1


@pytest.mark.parametrize("end", ["in time", "killed"])
def test_ended_jobs_are_settled_by_their_outcome_after_a_drain_that_could_not_write(database, site, tmp_path, end):
    """By their process if their rows are unlocked before it has to exit, or else by the supervisor, which kills it."""
    patience = {"LAST_FLUSH": 600, "EXIT_GRACE": 600, "KILL_AFTER": 1 if end == "killed" else 600}
    worker = site.start_ready("--threads", "4", env=constants(**patience), SHUTDOWN_GRACE=1)
    handles = tasks.wait_for_file.enqueue_many([call(str(tmp_path / "go")) for _ in range(4)])
    eventually(lambda: worker.started(handles) == 4)
    with transaction.atomic(using=database):
        list(rows(Job).select_for_update())
        (tmp_path / "go").touch()
        others = fill_threads(worker, 4, tmp_path / "go on")
        (tmp_path / "go on").touch()
        eventually(lambda: all(other.status() == "done" for other in others))
        worker.process.send_signal(signal.SIGTERM)
        worker.wait_for_log("reason='SIGTERM'")
        if end == "killed":
            worker.wait_for_log("process does not exit, killed")
        else:
            time.sleep(3)  # longer than the grace
    assert worker.process.wait(60) == 0
    assert ("process does not exit, killed" in worker.log()) == (end == "killed")
    assert [(handle.status(), handle.job().attempts) for handle in handles] == [("done", 1)] * 4


@pytest.mark.parametrize("how", ["exit 0", "kill the fork server"])
def test_every_way_to_end_a_process_is_blamed(database, site, how):
    handle = tasks.end_its_process.using(max_attempts=3).enqueue(how)
    worker = site.start("--threads", "2")
    record = handle.wait(120).record
    assert (record.status, record.attempts, len(record.errors)) == ("dead", 3, 3)
    assert record.last_error.startswith("worker process ")
    assert tasks.double.enqueue(4).wait(60).record.result == 8
    assert worker.stop() == 0


@pytest.mark.parametrize("name", ["djqueue-completer", "djqueue-run-1", "djqueue-link", "djqueue-loop"])
def test_a_process_that_loses_a_thread_is_replaced(database, site, name):
    site.start_ready("--threads", "2", BACKOFF_BASE=0.1)
    handle = tasks.end_a_thread.enqueue(name)
    others = tasks.double.using(delay=2).enqueue_many([call(n) for n in range(5)])  # something for the thread to do
    [coroutine] = tasks.adouble.using(delay=2).enqueue_many([call(4)])
    assert handle.wait(120).record.result == "survived"
    assert [other.wait(60).record.status for other in [*others, coroutine]] == ["done"] * 6


def test_suspects_take_no_thread_from_other_jobs(database, site, tmp_path):
    """Four jobs were killed together: each is run alone, elsewhere, while all threads work for the others."""
    worker = site.start_ready("--threads", "4", BACKOFF_BASE=0.1, BACKOFF_JITTER=0)
    suspects = tasks.wait_for_file.enqueue_many([call(str(tmp_path / "go")) for _ in range(4)])
    eventually(lambda: worker.started(suspects) == 4)
    [pid] = worker.workers()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: rows(Job).filter(crashes=1).count() == 4)
    meetings = [handle.wait(60).record for handle in tasks.meet.enqueue_many([call(4) for _ in range(40)])]
    eventually(lambda: sum(worker.events()["started", str(suspect.id), 2] for suspect in suspects) == 1)
    assert rows(Job).filter(crashes=1).count() == 4, "no suspect has ended, and one runs"
    (tmp_path / "go").touch()
    results = [handle.wait(90).record.result.split() for handle in suspects]
    assert [attempt for attempt, _ in results] == ["2"] * 4
    assert {record.status for record in meetings} == {"done"}
    assert not {int(process) for _, process in results} & {record.result for record in meetings}
    assert worker.stop() == 0


def test_suspects_that_wait_are_given_back_at_the_end(database, site):
    patient = constants(LAST_FLUSH=100, EXIT_GRACE=100, KILL_AFTER=100)  # with the database
    worker = site.start_ready("--threads", "2", env=patient, BACKOFF_BASE=0, SHUTDOWN_GRACE=2)
    handles = tasks.sleep.enqueue_many([call(600) for _ in range(2)])
    eventually(lambda: worker.started(handles) == 2)
    os.kill(worker.workers()[0], signal.SIGKILL)
    eventually(lambda: rows(Job).filter(crashes=1, status="claimed", started=True).count() >= 1)
    assert worker.stop() == 0
    assert [live(handle.id).status for handle in handles] == ["pending"] * 2
    assert {live(handle.id).attempts for handle in handles} == {1}
    connections.close_all()
