"""Real workers that are quieted, resumed and drained through the database."""

from __future__ import annotations

import os
import signal

import pytest

import djqueue
from djqueue.lifecycle.worker_requests import request
from djqueue.models import Job, Worker
from djqueue.states import WorkerRequest
from tests.conftest import PLAIN
from tests.tools import database_now, eventually, live, rows
from tests.worker import tasks

pytestmark = pytest.mark.databases(*PLAIN)
QUIET, RESUME, DRAIN = WorkerRequest.QUIET, WorkerRequest.RESUME, WorkerRequest.DRAIN


def ask(worker, what: WorkerRequest) -> int:
    """Ask a worker by one of its processes."""
    pid = worker.workers()[0]
    return request(rows(Worker).get(pid=pid, stopped_at=None).identity, what)


def states(worker) -> list[bool]:
    return [row.quiet for row in rows(Worker).filter(pid__in=worker.workers(), stopped_at=None)]


def test_a_quiet_worker_claims_nothing_also_in_a_new_process_until_it_resumes(database, site):
    worker = site.start_ready(processes=2)
    assert tasks.double.enqueue(1).wait(60).record.result == 2
    assert ask(worker, QUIET) == 2
    eventually(lambda: states(worker) == [True, True])
    handles = [tasks.double.using(queue=f"q{number}").enqueue(number) for number in range(4)]
    killed = worker.workers()[0]
    os.kill(killed, signal.SIGKILL)
    new = eventually(lambda: len(worker.workers()) == 2 and killed not in worker.workers() and worker.workers(), 60)
    assert states(worker) == [True, True], "from the first heartbeat of the new process"
    beats = {row.pid: row.heartbeat_at for row in rows(Worker).filter(pid__in=new)}
    eventually(lambda: all(rows(Worker).filter(pid=pid, heartbeat_at__gt=at).exists() for pid, at in beats.items()), 60)
    assert [handle.job().status for handle in handles] == ["pending"] * 4
    assert {handle.job().attempts for handle in handles} == {0}
    assert ask(worker, RESUME) == 2
    assert [handle.wait(60).record.result for handle in handles] == [0, 2, 4, 6]
    eventually(lambda: states(worker) == [False, False])
    assert worker.stop() == 0


@pytest.mark.parametrize("processes", [0, 2])
def test_a_drained_worker_finishes_its_jobs_and_exits_with_0_and_another_is_not_touched(database, site, processes):
    worker = site.start("--processes", str(processes), "--queue", "here")
    eventually(lambda: rows(Worker).filter(pid__in=worker.members(), stopped_at=None).count() == max(1, processes), 60)
    other = site.start_ready("--queue", "there")
    running = tasks.wait_for.using(queue="here").enqueue("go")
    eventually(lambda: live(running.id).started, 60)
    row = rows(Worker).filter(pid__in=worker.members(), stopped_at=None).first()
    assert request(row.identity, DRAIN) == max(1, processes)
    worker.wait_for_log("requested by an operator", 60)
    later = tasks.double.using(queue="here").enqueue(1)
    elsewhere = tasks.double.using(queue="there").enqueue(2)
    assert elsewhere.wait(60).record.result == 4, "another worker goes on"
    assert worker.process.poll() is None, "its job is still running"
    djqueue.kv.set("go", True)
    assert worker.process.wait(60) == 0
    assert (running.status(), running.job().attempts, later.status()) == ("done", 1, "pending")
    assert other.stop() == 0
    assert "requested by an operator" not in other.log()


@pytest.mark.databases("postgresql")
def test_a_signal_during_a_requested_drain_does_not_take_the_time_of_running_jobs(database, site):
    """A process manager may send it; the second signal stops at once, as always."""
    worker = site.start_ready()
    running = tasks.wait_for.enqueue("go")
    eventually(lambda: live(running.id).started, 60)
    ask(worker, DRAIN)
    worker.wait_for_log("requested by an operator", 60)
    worker.process.send_signal(signal.SIGTERM)
    worker.wait_for_log("draining already reason=SIGTERM", 60)
    djqueue.kv.set("go", True)
    assert worker.process.wait(60) == 0
    assert (running.status(), running.job().attempts) == ("done", 1)


@pytest.mark.databases("postgresql")
def test_a_request_does_not_touch_a_worker_that_is_started_again(database, site):
    first = site.start_ready(processes=2)
    ask(first, DRAIN)
    assert first.process.wait(60) == 0
    stale = {"request": DRAIN.value, "requested_at": database_now()}
    second = site.start_ready(processes=2)
    rows(Worker).exclude(stopped_at=None).update(**stale)  # once more, by hand, to the rows of the first
    handles = [tasks.double.enqueue(number) for number in range(10)]
    assert [handle.wait(60).record.result for handle in handles] == [2 * number for number in range(10)]
    assert states(second) == [False, False]
    assert not rows(Job).exists()
    assert second.stop() == 0
    assert "request received" not in second.log()


@pytest.mark.databases("postgresql")
def test_a_quiet_burst_exits(database, site):
    running = tasks.wait_for.enqueue("go")
    worker = site.start("--burst", "--processes", "2")
    eventually(lambda: rows(Worker).filter(stopped_at=None, running=1).exists() and live(running.id).started, 60)
    row = rows(Worker).filter(stopped_at=None, running=1).get()
    request(row.identity, QUIET)
    eventually(lambda: rows(Worker).get(pk=row.pk).quiet)
    left = tasks.double.enqueue(1)
    djqueue.kv.set("go", True)
    assert worker.process.wait(60) == 0
    assert (running.status(), left.status()) == ("done", "pending")


@pytest.mark.databases("postgresql")
def test_rows_have_the_loops_and_the_memory_of_every_process(database, site):
    worker = site.start_ready(processes=2)
    eventually(lambda: all(len(row.samples) > 1 for row in rows(Worker).filter(pid__in=worker.workers())), 60)
    for row in rows(Worker):
        assert sorted(row.loops) == ["claimer", "completer", "leases", "reaper", "scheduler", "sweeps"]
        assert max(row.loops.values()) < 100
        assert all(memory > 1_000_000 for _, memory in row.samples)
    assert worker.stop() == 0
