"""Processes that die, stop and hang: nothing is lost, and only running jobs are blamed."""

from __future__ import annotations

import os
import signal

import pytest

import djqueue
from djqueue import call, kv
from djqueue.models import DoneJob, Job
from tests.tools import eventually, live, rows
from tests.worker import tasks
from tests.worker.site import constants

pytestmark = pytest.mark.databases("postgresql")
LONG = 600  # seconds: longer than any test
# A worker that claims many jobs ahead, and does not give them back because a job takes longer than those before.
CLAIMING_AHEAD = constants(WORK_IN_HAND=2, STUCK_AFTER=LONG)


def claimed(**fields) -> int:
    return rows(Job).filter(status="claimed", **fields).count()


def test_a_killed_process_is_settled_long_before_its_leases_expire(database, site, tmp_path):
    """All four that it ran are blamed, and each is next run alone."""
    worker = site.start_ready("--threads", "4", BACKOFF_BASE=0.1, BACKOFF_JITTER=0)
    [victim] = worker.workers()
    running = tasks.overlap_after_a_crash.using(lease=LONG).enqueue_many(
        [call("crowd", str(tmp_path / "go")) for _ in range(4)]
    )
    eventually(lambda: kv.get("crowd/1") == 4)
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: all(handle.job().errors for handle in running))
    for handle in running:
        record = handle.job()
        assert record.attempts == 1 or record.status == "claimed"
        assert [error["message"] for error in record.errors] == ["worker process killed by signal 9"]
    (tmp_path / "go").touch()
    records = [handle.wait(60).record for handle in running]
    assert [record.attempts for record in records] == [2] * 4
    assert [record.result for record in records] == [1] * 4, "each was run alone"
    assert victim not in worker.workers()
    assert worker.stop() == 0


def warm_up(site):
    """A worker of one thread that has learnt that jobs are short, and so claims many at once."""
    worker = site.start_ready("--threads", "1", env=CLAIMING_AHEAD, BACKOFF_BASE=0.1, BACKOFF_JITTER=0)
    tasks.double.using(queue="warm").enqueue_many([call(1) for _ in range(300)])
    eventually(lambda: not rows(Job).exists())
    return worker


def test_a_killed_process_costs_running_jobs_an_attempt_and_held_jobs_nothing(database, site):
    """Also long before their leases expire."""
    worker = warm_up(site)
    queue = djqueue.Queue("work")
    queue.pause()
    running = tasks.sleep_at_first.using(queue="work", priority=1, lease=LONG).enqueue(LONG)
    behind = tasks.double.using(queue="work", lease=LONG).enqueue_many([call(n) for n in range(20)])
    queue.resume()
    eventually(lambda: claimed(queue="work") > 1 and worker.started([running]))
    held = kill_while_it_holds(worker, behind)
    assert held, "it did not hold jobs"
    eventually(lambda: running.job().errors and not rows(Job).filter(token__in=held.values()).exists())
    record = running.wait(60).record
    assert (record.status, record.attempts) == ("done", 2)
    assert [error["message"] for error in record.errors] == ["worker process killed by signal 9"]
    for handle in behind:
        record = handle.wait(60).record
        assert (record.status, record.attempts, record.errors) == ("done", 1, [])
        assert len(record.worker_ids) == 1
    assert worker.stop() == 0


def kill_while_it_holds(worker, handles) -> dict[object, object]:
    """Stop the process, look at the jobs, and kill it if it holds some of them; return their tokens by their ids."""
    [victim] = worker.workers()
    os.kill(victim, signal.SIGSTOP)
    ids = [handle.id for handle in handles]
    held = dict(rows(Job).filter(id__in=ids, status="claimed").values_list("id", "token"))
    os.kill(victim, signal.SIGKILL if held else signal.SIGCONT)
    return held


def test_jobs_that_a_killed_process_held_under_load_are_untouched(database, site):
    """Four processes are killed amid short jobs; jobs that had not started are as if they had never been claimed."""
    handles = []
    worker = site.start_ready("--threads", "1", env=CLAIMING_AHEAD, BACKOFF_BASE=0)
    held: set[object] = set()
    kills = 0
    while kills < 4:
        handles += tasks.sleep.enqueue_many([call(0.002) for _ in range(1000)])
        left = rows(Job).count()
        eventually(lambda: len(worker.workers()) == 1 and rows(Job).count() < left - 100)
        found = kill_while_it_holds(worker, handles)
        kills += bool(found)
        started = {job for event, job, _ in worker.events() if event == "started"}
        held |= {job for job in found if str(job) not in started}
    eventually(lambda: not rows(Job).exists(), 120)
    records = rows(DoneJob).in_bulk()
    assert len(records) == len(handles)
    spent = [job for job in held if (records[job].attempts, records[job].errors) != (1, [])]
    # A process may be stopped after it has started a job and before it has logged that: one for each of them.
    assert len(spent) <= kills < len(held), [(records[job].attempts, records[job].errors) for job in spent]
    assert worker.stop() == 0


def test_the_processes_of_a_killed_supervisor_exit(database, site):
    """What ran comes back with its attempt spent, what was only held keeps it; both when their leases expire."""
    running = tasks.hold_the_interpreter_at_first.using(lease=10, priority=1, max_attempts=2).enqueue(LONG)
    held = tasks.double.using(lease=10).enqueue(1)
    worker = site.start("--threads", "1")
    eventually(lambda: live(running.id).started)
    assert (live(held.id).status, live(held.id).started) == ("claimed", False)
    os.kill(worker.pid, signal.SIGKILL)
    eventually(lambda: not worker.members())
    site.start("--threads", "2", LEASE=10, REAPER_INTERVAL=1)
    assert held.wait(100).record.attempts == 1
    record = running.wait(100).record
    assert (record.status, record.attempts) == ("done", 2)
    assert [error["message"] for error in record.errors] == ["lease expired"]


def test_a_stopped_worker_cannot_complete_what_another_has_done(database, site, tmp_path):
    handle = tasks.wait_for_file.using(lease=6).enqueue(str(tmp_path / "go"))
    first = site.start("--processes", "1", LEASE=6)
    eventually(lambda: first.started([handle]))
    first.signal_all(signal.SIGSTOP)
    second = site.start("--processes", "1", LEASE=6, REAPER_INTERVAL=1)
    eventually(lambda: second.events()["started", str(handle.id), 2], 100)
    (tmp_path / "go").touch()
    record = handle.wait(60).record
    assert (record.status, record.attempts) == ("done", 2)
    first.signal_all(signal.SIGCONT)
    first.wait_for_log("lease lost, outcome discarded job=")
    assert handle.job().completed_at == record.completed_at
    assert handle.job().attempts == 2
    assert first.stop() == 0


def test_a_job_that_kills_its_process_harms_no_other(database, site):
    good = tasks.sleep.enqueue_many([call(0.05) for _ in range(50)])
    killer = tasks.always.using(max_attempts=3).enqueue("kill")
    good += tasks.sleep.enqueue_many([call(0.05) for _ in range(50)])
    worker = site.start("--threads", "4", BACKOFF_BASE=0.1)
    assert killer.wait(120).record.status == "dead"
    assert [error["message"] for error in killer.job().errors] == ["worker process killed by signal 9"] * 3
    for handle in good:
        record = handle.wait(60).record
        assert record.status == "done"
        assert len(record.errors) <= 1
    events = eventually(lambda: (found := worker.events())["dead_letter", str(killer.id), 3] and found)
    assert [events["failed", str(killer.id), attempt] for attempt in (1, 2, 3)] == [1, 1, 1]
    assert eventually(lambda: kv.get(f"dead/{killer.id}")) == 3, "on_dead was called, by a process that lives"
    assert worker.stop() == 0


def test_a_task_that_exits_its_process_is_named_with_the_code(database, site):
    handle = tasks.once_then.enqueue("exit")
    site.start()
    assert handle.wait(60).record.errors[0]["message"] == "worker process exited with code 3"


@pytest.mark.parametrize(("task", "result"), [(tasks.spin_for, "spun"), (tasks.hold_the_interpreter, "let go")])
def test_a_task_that_does_not_let_others_run_keeps_its_lease(database, site, task, result):
    """Three times as long as its lease, beside a worker that would reap it."""
    workers = [site.start_ready("--queue", name, LEASE=10, REAPER_INTERVAL=1) for name in ("default", "another")]
    handle = task.using(lease=5).enqueue(15)
    record = handle.wait(100).record
    assert (record.result, record.attempts) == (result, 1)
    assert not any("lease lost" in worker.log() for worker in workers)


def test_a_timeout_is_raised_inside(database, site):
    """And not by killing the process, which would come much later here."""
    handle = tasks.spin.using(timeout=2, max_attempts=1).enqueue()
    neighbour = tasks.sleep.enqueue(4)
    site.start(env=constants(TIMEOUT_GRACE=LONG))
    record = handle.wait(100).record
    assert record.errors[0]["exception"] == "djqueue.exceptions.TaskTimeout"
    assert record.errors[0]["duration"] >= 2
    assert neighbour.wait(60).record.attempts == 1


def test_a_timeout_that_cannot_be_raised_costs_the_process(database, site):
    """The neighbours lose their work, but no attempt."""
    handle = tasks.hold_the_interpreter.using(timeout=2, max_attempts=1).enqueue(LONG)
    neighbours = [tasks.sleep.enqueue(1) for _ in range(3)]
    worker = site.start()
    record = handle.wait(60).record
    assert (record.status, record.attempts) == ("dead", 1)
    assert "exceeded its timeout and could not be interrupted" in record.last_error
    for neighbour in neighbours:
        record = neighbour.wait(60).record
        assert (record.status, record.attempts, record.errors) == ("done", 1, [])
    worker.wait_for_log("timeout ignored")


def test_a_thousand_jobs_at_the_edge_of_their_timeout(database, site):
    """Each ends by itself or by its own timeout; those without a timeout are never touched."""
    edge = tasks.sleep.using(timeout=0.05, max_attempts=1).enqueue_many(
        [call(0.05 + (n % 21 - 10) / 10_000) for n in range(1000)]
    )
    others = tasks.overlap.using(queue="others").enqueue_many([call(f"n{n}", 0.01) for n in range(300)])
    # A process that stands still for a moment must not be killed because of that.
    worker = site.start("--threads", "8", "--processes", "2", env=constants(TIMEOUT_GRACE=LONG))
    for handle in others:
        record = handle.wait(240).record
        assert (record.status, record.attempts, record.errors, record.result) == ("done", 1, [], 1)
    ends = [handle.wait(240).record for handle in edge]
    assert {record.status for record in ends} <= {"done", "dead"}
    assert {record.errors[0]["exception"] for record in ends if record.errors} <= {"djqueue.exceptions.TaskTimeout"}
    assert {record.attempts for record in ends} == {1}
    assert worker.stop() == 0


def test_a_lost_fork_server_is_replaced(database, site):
    worker = site.start_ready()
    handle = tasks.wait_for.enqueue("go")
    eventually(lambda: worker.started([handle]))
    [forkserver] = worker.members() - {worker.pid} - set(worker.workers())
    os.kill(forkserver, signal.SIGKILL)
    worker.wait_for_log("fork server exited, restarting")
    kv.set("go", True)
    record = handle.wait(60).record
    assert (record.status, record.attempts) == ("done", 2), "it ran: a task may have killed the fork server"
    assert [error["message"] for error in record.errors] == ["worker process killed by signal 9"]
    assert worker.process.poll() is None
    eventually(lambda: worker.workers())
    assert worker.stop() == 0
