"""Processes that die, stop and hang: nothing is lost, and only those who ran are blamed."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise

import pytest

import djqueue
from djqueue import call, kv
from djqueue.models import Job
from tests.tools import eventually, live, rows
from tests.worker import tasks

pytestmark = pytest.mark.databases("postgresql")


def claimed(**fields) -> int:
    return rows(Job).filter(status="claimed", **fields).count()


def test_a_killed_process_is_settled_within_two_seconds(database, site):
    """Four were running, the others were only held."""
    worker = site.start_ready("--threads", "4", BACKOFF_BASE=0.1, BACKOFF_JITTER=0)
    [victim] = worker.workers()
    running = [tasks.sleep.using(priority=1).enqueue(3) for _ in range(4)]
    eventually(lambda: claimed(started=True) == 4, 30)
    held = tasks.sleep.enqueue_many([call(0.01) for _ in range(100)])
    os.kill(victim, signal.SIGKILL)
    killed_at = time.monotonic()
    eventually(lambda: all(handle.job().errors for handle in running), 2)
    assert time.monotonic() - killed_at < 2
    for handle in running:
        record = handle.job()
        assert record.attempts == 1 or record.status == "claimed"
        assert [error["message"] for error in record.errors] == ["worker process killed by signal 9"]
    for handle in running:
        assert handle.wait(60).record.attempts == 2
    for handle in held:
        record = handle.wait(60).record
        assert (record.status, record.attempts, record.errors) == ("done", 1, [])
    ran = sorted((handle.job().last_attempted_at, handle.job().completed_at) for handle in running)
    assert all(end <= start for (_, end), (start, _) in pairwise(ran)), "each was run alone"
    assert victim not in worker.workers()
    assert worker.stop() == 0


def test_prefetched_jobs_of_a_killed_process_are_untouched(database, site):
    """Short jobs fill its hands; the long ones that kill it are behind them."""
    tasks.sleep.enqueue_many([call(0.002) for _ in range(400)])
    worker = site.start_ready("--threads", "4", BACKOFF_BASE=0.1)
    eventually(lambda: rows(Job).count() < 300, 30)
    os.kill(worker.workers()[0], signal.SIGKILL)
    eventually(lambda: rows(Job).count() == 0, 60)
    attempts = [record.attempts for record in rows(djqueue.models.DoneJob).all()]
    assert len(attempts) == 400
    assert set(attempts) <= {1, 2}
    assert attempts.count(2) < 150, "those that ran, or whose outcome was not yet written; most were only held"


def test_a_killed_supervisor_takes_its_processes_along(database, site):
    """What ran comes back with its attempt spent, what was only held keeps it; both when their leases end."""
    running = tasks.hold_the_interpreter.using(lease=2, priority=1, max_attempts=2).enqueue(3)
    held = tasks.double.using(lease=2).enqueue(1)
    worker = site.start("--threads", "1")
    eventually(lambda: live(running.id).started, 30)
    assert (live(held.id).status, live(held.id).started) == ("claimed", False)
    os.kill(worker.pid, signal.SIGKILL)
    eventually(lambda: not worker.members(), 5)
    site.start("--threads", "2", LEASE=1)
    assert held.wait(60).record.attempts == 1
    record = running.wait(60).record
    assert (record.status, record.attempts) == ("done", 2)
    assert [error["message"] for error in record.errors] == ["lease expired"]


def test_a_stopped_worker_cannot_complete_what_another_has_done(database, site):
    handle = tasks.sleep.using(lease=1.5).enqueue(1)
    first = site.start("--processes", "1", LEASE=1)
    eventually(lambda: live(handle.id).started, 30)
    first.signal_all(signal.SIGSTOP)
    site.start("--processes", "1", LEASE=1)
    record = handle.wait(60).record
    assert (record.status, record.attempts) == ("done", 2)
    first.signal_all(signal.SIGCONT)
    first.says("lease lost job=")
    assert handle.job().completed_at == record.completed_at
    assert handle.job().attempts == 2
    assert first.stop() == 0


def test_a_job_that_kills_its_process_harms_no_other(database, site):
    good = tasks.sleep.enqueue_many([call(0.05) for _ in range(50)])
    killer = tasks.always.using(max_attempts=3).enqueue("kill")
    good += tasks.sleep.enqueue_many([call(0.05) for _ in range(50)])
    worker = site.start("--threads", "4", BACKOFF_BASE=0.1)
    assert killer.wait(60).record.status == "dead"
    assert [error["message"] for error in killer.job().errors] == ["worker process killed by signal 9"] * 3
    for handle in good:
        record = handle.wait(60).record
        assert record.status == "done"
        assert len(record.errors) <= 1
    events = eventually(lambda: (found := worker.events())["dead_letter", str(killer.id), 3] and found, 10)
    assert [events["failed", str(killer.id), attempt] for attempt in (1, 2, 3)] == [1, 1, 1]
    assert eventually(lambda: kv.get(f"dead/{killer.id}")) == 3, "on_dead was called, by a process that lives"
    assert worker.stop() == 0


def test_a_task_that_exits_its_process_is_named_with_the_code(database, site):
    handle = tasks.once_then.enqueue("exit")
    site.start()
    assert handle.wait(60).record.errors[0]["message"] == "worker process exited with code 3"


@pytest.mark.parametrize(("task", "result"), [(tasks.spin_for, "spun"), (tasks.hold_the_interpreter, "let go")])
def test_a_task_that_does_not_let_others_run_keeps_its_lease(database, site, task, result):
    handle = task.using(lease=1).enqueue(4)
    site.start(LEASE=1)
    site.start(LEASE=1)  # somebody who would reap it
    record = handle.wait(60).record
    assert (record.result, record.attempts) == (result, 1)


def test_a_timeout_is_raised_inside(database, site):
    handle = tasks.spin.using(timeout=2, max_attempts=1).enqueue()
    neighbour = tasks.sleep.enqueue(4)
    site.start()
    record = handle.wait(60).record
    assert record.errors[0]["exception"] == "djqueue.exceptions.TaskTimeout"
    assert 2 <= record.errors[0]["duration"] < 4
    assert neighbour.wait(60).record.attempts == 1


def test_a_timeout_that_cannot_be_raised_costs_the_process(database, site):
    """The neighbours lose their work, but no attempt."""
    handle = tasks.hold_the_interpreter.using(timeout=2, max_attempts=1).enqueue(60)
    neighbours = [tasks.sleep.enqueue(1) for _ in range(3)]
    worker = site.start()
    record = handle.wait(60).record
    assert (record.status, record.attempts) == ("dead", 1)
    assert "ran past its timeout and could not be interrupted" in record.last_error
    for neighbour in neighbours:
        record = neighbour.wait(60).record
        assert (record.status, record.attempts, record.errors) == ("done", 1, [])
    worker.says("timeout ignored")


def test_a_thousand_jobs_at_the_edge_of_their_timeout(database, site):
    """Each ends by itself or by its own timeout; those without a timeout are never touched."""
    edge = tasks.sleep.using(timeout=0.05, max_attempts=1).enqueue_many(
        [call(0.05 + (n % 21 - 10) / 10_000) for n in range(1000)]
    )
    others = tasks.overlap.using(queue="others").enqueue_many([call(f"n{n}", 0.01) for n in range(300)])
    worker = site.start("--threads", "8", "--processes", "2")
    for handle in others:
        record = handle.wait(240).record
        assert (record.status, record.attempts, record.errors, record.result) == ("done", 1, [], 1)
    ends = [handle.wait(240).record for handle in edge]
    assert {record.status for record in ends} <= {"done", "dead"}
    assert {record.errors[0]["exception"] for record in ends if record.errors} <= {"djqueue.exceptions.TaskTimeout"}
    assert {record.attempts for record in ends} == {1}
    assert worker.stop() == 0


def test_a_lost_template_is_made_anew(database, site):
    worker = site.start_ready()
    handle = tasks.sleep.enqueue(1)
    eventually(lambda: live(handle.id).started, 30)
    [template] = worker.members() - {worker.pid} - set(worker.workers())
    os.kill(template, signal.SIGKILL)
    worker.says("starting over")
    record = handle.wait(60).record
    assert (record.status, record.attempts) == ("done", 1)
    assert worker.process.poll() is None
    eventually(lambda: worker.workers(), 30)
    assert worker.stop() == 0
