"""The command in processes of its own, with real signals."""

from __future__ import annotations

import os
import signal
from itertools import pairwise

import pytest
from django.db import connections

import djqueue
from djqueue import call
from djqueue.models import DoneJob, Schedule, Worker
from tests.tools import eventually, live, rows
from tests.worker import tasks
from tests.worker.process.test_worker import PLAIN


@pytest.mark.databases(*PLAIN)
@pytest.mark.parametrize("processes", [0, 1, 2])
def test_a_burst_runs_what_is_due_and_exits(database, site, processes):
    handles = tasks.double.enqueue_many([call(n) for n in range(50)])
    worker = site.start("--burst", "--threads", "2", "--processes", str(processes), "--name", "here")
    assert worker.process.wait(60) == 0
    assert {handle.status() for handle in handles} == {"done"}
    assert f"name=here queues=all database={database} processes={processes} threads=2 wake-up=" in worker.log()
    assert worker.log().count("done job=") == 50
    assert "task=tests.worker.tasks.double queue=default attempt=1/3" in worker.log()
    assert worker.events() == {
        (event, str(handle.id), 1): 1 for handle in handles for event in ("started", "completed")
    }


@pytest.mark.databases(*PLAIN)
@pytest.mark.parametrize("processes", [0, 1])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains(database, site, number, processes):
    """Also when the whole group gets it, as from a terminal."""
    running = tasks.sleep.enqueue(2)
    waiting = tasks.sleep.enqueue_many([call(60) for _ in range(10)])
    worker = site.start("--threads", "1", "--processes", str(processes))
    eventually(lambda: live(running.id).status == "claimed" and live(running.id).started, 30)
    worker.signal_all(number)
    assert worker.process.wait(60) == 0
    assert running.status() == "done"
    records = [handle.job() for handle in waiting]
    assert {(record.status, record.attempts) for record in records} == {("pending", 0)}
    assert worker.members() == set()


@pytest.mark.databases(*PLAIN)
@pytest.mark.parametrize("processes", [0, 1])
def test_a_second_signal_stops_at_once(database, site, processes):
    handle = tasks.sleep.enqueue(60)
    worker = site.start("--processes", str(processes))
    eventually(lambda: live(handle.id).started, 30)
    worker.process.terminate()
    worker.wait_for_log("draining")
    assert worker.stop() == 1
    assert (handle.status(), handle.job().attempts) == ("pending", 0)


@pytest.mark.databases(*PLAIN)
def test_a_killed_process_costs_running_jobs_an_attempt_and_held_jobs_nothing(database, site):
    running = tasks.once_then.using(queue="first").enqueue("kill")
    worker = site.start_ready("--threads", "1")
    assert running.wait(30).record.result == "survived"
    record = running.job()
    assert [error["message"] for error in record.errors] == ["worker process killed by signal 9"]
    assert record.attempts == 2
    assert len(set(record.worker_ids)) == 2
    held = tasks.double.enqueue(3)
    assert held.wait(30).record.attempts == 1
    eventually(lambda: ("failed", str(running.id), 1) in worker.events())
    assert worker.events()["retrying", str(running.id), 2] == 1
    assert worker.stop() == 0


@pytest.mark.databases(*PLAIN)
def test_worker_rows_list_all_processes(database, site):
    worker = site.start_ready("--name", "rows", "--queue", "a", "--threads", "3", processes=2)
    found = list(rows(Worker).all())
    assert {row.pid for row in found} == set(worker.workers())
    assert {(row.name, tuple(row.queues), row.threads, row.draining) for row in found} == {("rows", ("a",), 3, False)}
    assert len({row.supervisor for row in found}) == 1
    assert all(row.memory > 1_000_000 for row in found)
    assert worker.stop() == 0
    assert all(row.stopped_at for row in rows(Worker).all())


@pytest.mark.databases("postgresql")
def test_the_counts_of_killed_processes_stay_in_their_rows(database, site):
    """Of a process that the supervisor replaces, and of the last one, which is killed with its supervisor."""
    worker = site.start_ready("--threads", "1", "--exclude", "other")
    [first] = rows(Worker)
    assert first.queues == {"queues": [], "exclude": ["other"]}
    tasks.double.enqueue_many([call(n) for n in range(5)])
    eventually(lambda: counts(first) == (5, 0, False))
    handle = tasks.sleep_at_first.enqueue(60)
    eventually(lambda: counts(first) == (5, 1, False))
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: counts(first) == (5, 0, True))
    assert handle.wait(30).completed
    [second] = eventually(lambda: rows(Worker).filter(stopped_at=None).exclude(name="quarantine"))
    assert tasks.double.enqueue(1).wait(30).completed
    eventually(lambda: counts(second) == (1, 0, False))
    os.kill(worker.pid, signal.SIGKILL)
    eventually(lambda: not worker.members())
    assert [counts(row) for row in (first, second)] == [(5, 0, True), (1, 0, False)]


def counts(row: Worker) -> tuple[int, int, bool]:
    row = rows(Worker).get(pk=row.pk)
    return row.finished, row.running, row.stopped_at is not None


@pytest.mark.databases(*PLAIN)
@pytest.mark.parametrize("processes", [0, 1])
def test_schedules_of_code_and_of_the_table_fire(database, site, tmp_path, processes):
    """Also under a supervisor, which has not imported the tasks; their receivers are called all the same."""
    module = tmp_path / "scheduled" / "tasks.py"
    module.parent.mkdir()
    (module.parent / "__init__.py").touch()
    module.write_text(
        "import djqueue\n\n@djqueue.task(name='tick', queue='ticks', max_attempts=7)\ndef tick():\n"
        "    job = djqueue.current_job()\n    return [job.schedule, job.slot.isoformat()]\n\n"
        "djqueue.schedule('every-second', task=tick, every=1)\n\n"
        "def receive(id, **kwargs):\n    djqueue.kv.set(f'received/{id}', True)\n\n"
        "djqueue.signals.job_queued.connect(receive)\n"
    )
    worker = site.start(
        "--processes", str(processes), env={"PYTHONPATH": f"{tmp_path}:.", "DJQUEUE_TEST_APP": "scheduled"}
    )
    eventually(lambda: rows(Schedule).filter(name="every-second", from_code=True).exists(), 60)
    djqueue.schedules.create("by-hand", task=tasks.process_id, every=1)
    eventually(lambda: rows(DoneJob).filter(schedule="every-second").count() >= 2, 30)
    eventually(lambda: rows(DoneJob).filter(schedule="by-hand").exists(), 30)
    done = list(rows(DoneJob).filter(schedule="every-second"))
    # A job may be done before the thread that has fired it sends the signal.
    eventually(lambda: [worker.events()["queued", str(job.id), 0] for job in done] == [1] * len(done), 30)
    assert worker.stop() == 0
    done = rows(DoneJob).filter(schedule="every-second")
    assert {(job.queue, job.max_attempts, job.result[0]) for job in done} == {("ticks", 7, "every-second")}
    assert {worker.events()["queued", str(job.id), 0] for job in done} <= {0, 1}  # 0 if it was stopped meanwhile
    assert all(djqueue.kv.get(f"received/{job.id}") for job in done), "a receiver that only the tasks module connects"
    slots = [job.slot for job in done.order_by("slot")]
    assert {(later - earlier).total_seconds() for earlier, later in pairwise(slots)} <= {1.0}


@pytest.mark.databases("postgresql")
def test_a_process_forked_by_a_task_obeys_its_signals(database, site):
    worker = site.start_ready()
    before = worker.workers()
    assert tasks.fork_and_terminate.enqueue().wait(30).record.result == -signal.SIGTERM
    assert tasks.double.enqueue(4).wait(30).completed
    assert "draining" not in worker.log()
    assert worker.workers() == before


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("processes", [0, 1])
@pytest.mark.parametrize("how", ["return", "raise", "coroutine"])
def test_a_forked_process_that_returns_from_the_task_exits(database, site, processes, how):
    """Else it would run what its thread holds a second time, over its parent's connection."""
    task = tasks.afork_and_return if how == "coroutine" else tasks.fork_and_return
    worker = site.start("--processes", str(processes), "--threads", "1")
    assert tasks.double.enqueue(1).wait(60).completed
    before = worker.members()
    handles = [task.using(max_attempts=1).enqueue(how)]
    handles += tasks.double.enqueue_many([call(n) for n in range(20)])
    records = [handle.wait(30).record for handle in handles]
    assert records[0].result in before
    assert [record.result for record in records[1:]] == [2 * n for n in range(20)]
    eventually(lambda: worker.members() == before)
    assert worker.stop() == 0
    assert [worker.events()["completed", str(handle.id), 1] for handle in handles] == [1] * 21


@pytest.mark.databases("postgresql_pool")
def test_a_connection_pool_does_not_run_out(database, site):
    handles = tasks.leave_a_transaction_open.enqueue_many([call() for _ in range(60)])
    worker = site.start_ready()
    assert {handle.wait(60).record.status for handle in handles} == {"done"}
    assert worker.stop() == 0


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("processes", [0, 1])
def test_a_worker_that_waits_for_its_tables_can_be_stopped(database, site, processes):
    with connections[database].cursor() as cursor:
        cursor.execute("ALTER TABLE djqueue_job RENAME TO djqueue_job_later")
        try:
            worker = site.start("--processes", str(processes))
            worker.wait_for_log("waiting for manage.py migrate djqueue --database postgresql")
            assert worker.stop() == 0
        finally:
            cursor.execute("ALTER TABLE djqueue_job_later RENAME TO djqueue_job")


@pytest.mark.databases("postgresql")
def test_a_killed_worker_loses_nothing(database, site):
    running = tasks.sleep.using(lease=1).enqueue(60)
    waiting = tasks.double.using(lease=1).enqueue(4)
    worker = site.start("--threads", "1")
    eventually(lambda: live(running.id).started, 30)
    os.kill(worker.pid, signal.SIGKILL)
    eventually(lambda: not worker.members())
    eventually(lambda: djqueue.maintenance.reap() or live(running.id).status == "pending", 30)
    assert running.job().last_error == "lease expired"
    eventually(lambda: (djqueue.maintenance.reap(), waiting.status() == "pending")[1], 30)
    djqueue.cancel(running)
    assert site.start("--burst").process.wait(60) == 0
    assert (waiting.status(), waiting.job().attempts) == ("done", 1)
