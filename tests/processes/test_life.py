"""Workers through a working day: load of every kind, deploys, outages, cancels, misbehaving tasks."""

from __future__ import annotations

import os
import signal
import time

import pytest

import djqueue
from djqueue import call, kv
from djqueue.models import DoneJob, Job
from tests import postgres
from tests.tools import eventually, live, rows
from tests.worker import tasks

pytestmark = pytest.mark.databases("postgresql")


def test_ten_thousand_jobs_of_every_kind(database, site):
    """Every job ends as it should, with the right attempts, and every event is signalled once."""
    expected = {}

    def enqueue(task, count, status, attempts, *arguments, **options):
        handles = task.using(**options).enqueue_many([call(*arguments) for _ in range(count)])
        expected.update({handle.id: (status, attempts) for handle in handles})
        return handles

    enqueue(tasks.double, 4000, "done", 1, 1, queue="a")
    enqueue(tasks.adouble, 2000, "done", 1, 1, queue="b")
    enqueue(tasks.fail_until, 1000, "done", 2, 2, queue="c")
    enqueue(tasks.fail_until, 500, "dead", 3, 9, queue="a", max_attempts=3)
    enqueue(tasks.raise_it, 500, "dead", 1, "permanent", queue="b")
    enqueue(tasks.raise_it, 500, "cancelled", 1, "cancelled", queue="c")
    enqueue(tasks.double, 1000, "done", 1, 1, queue="b", delay=2)
    snoozed = enqueue(tasks.snooze_once, 500, "done", 1, queue="c")
    worker = site.start("--threads", "4", "--processes", "2", BACKOFF_BASE=0)
    eventually(lambda: rows(Job).count() == 0, 240)
    ended = {record.id: (record.status, record.attempts) for record in rows(DoneJob).iterator()}
    ended |= {record.id: ("dead", record.attempts) for record in rows(djqueue.models.DeadJob).iterator()}
    assert ended == expected
    assert worker.stop() == 0
    events = worker.events()
    twice = {key for key, count in events.items() if count != 1}
    assert twice == {("started", str(handle.id), 1) for handle in snoozed}, "a snooze does not spend the attempt"
    ends = {"done": "completed", "dead": "dead_letter", "cancelled": "cancelled"}
    for job, (status, attempts) in expected.items():
        assert events[ends[status], str(job), attempts] == 1
        failures = attempts - 1 if status == "done" else attempts if status == "dead" else 0
        assert [events["failed", str(job), attempt] for attempt in range(1, failures + 1)] == [1] * failures


def test_a_deploy_gives_back_what_was_prefetched_while_the_running_job_goes_on(database, site):
    tasks.sleep.using(queue="warm").enqueue_many([call(0.0005) for _ in range(500)])
    worker = site.start("--threads", "1")
    eventually(lambda: rows(Job).count() == 0, 60)  # it has learnt that jobs are short
    djqueue.Queue("work").pause()
    running = tasks.sleep.using(queue="work", priority=1).enqueue(6)
    held = tasks.double.using(queue="work").enqueue_many([call(n) for n in range(20)])
    djqueue.Queue("work").resume()
    # How many it prefetches depends on how fast it was, and so on the load of this machine.
    eventually(lambda: worker.started([running]) and rows(Job).filter(status="claimed").count() > 1, 30)
    worker.process.terminate()
    eventually(lambda: rows(Job).filter(status="pending", attempts=0).count() == 20, 5)
    assert running.status() == "claimed"
    assert worker.process.wait(60) == 0
    assert (running.status(), running.job().attempts) == ("done", 1)
    assert all(handle.job().worker_ids == [] for handle in held)


@pytest.mark.skipif(not postgres.is_ours(), reason="restarts the server: unset DATABASE_URL")
def test_the_database_is_restarted_five_times_under_load(database, site):
    handles = tasks.sleep.enqueue_many([call(0.005) for _ in range(4000)])
    worker = site.start("--threads", "4", "--processes", "2")
    for turn in range(5):
        before = count_done()
        eventually(lambda: count_done() > before + 50, 60)
        postgres.restart("immediate" if turn % 2 else "fast")
    eventually(lambda: count_done() == len(handles), 120)
    assert worker.process.poll() is None
    assert worker.stop() == 0


def count_done() -> int:
    """Also while the database is away."""
    from django.db import DatabaseError, InterfaceError, connections

    try:
        return rows(DoneJob).count()
    except (DatabaseError, InterfaceError):
        connections["postgresql"].close()
        return -1


@pytest.mark.skipif(not postgres.is_ours(), reason="restarts the server: unset DATABASE_URL")
def test_after_an_outage_living_workers_renew_before_any_reaps(database, site):
    """The outage is longer than the lease; no job is taken."""
    handle = tasks.sleep.using(lease=2).enqueue(10)
    workers = [site.start_ready(LEASE=4, REAPER_INTERVAL=0.2) for _ in range(2)]
    eventually(lambda: live(handle.id).started, 30)
    postgres.stop()
    time.sleep(3)
    postgres.start_again()
    eventually(lambda: count_done() == 1, 60)
    assert handle.job().attempts == 1
    for worker in workers:
        worker.wait_for_log("INFO database available again seconds=")
        lines = worker.log().count("WARNING database unavailable, trying again until it responds what=")
        assert 1 <= lines <= 2, "one of the supervisor, and one of its process"


def test_a_cancel_reaches_a_running_task_within_a_second_without_notify(database, site):
    site.start_ready(NOTIFY=False, POLL_INTERVAL=0.2)
    for task in (tasks.work_in_steps.call(3000, 0.01), tasks.asleep.call(60)):
        [handle] = djqueue.enqueue_many([task])
        eventually(lambda: live(handle.id).started, 30)
        start = time.monotonic()
        handle.cancel()
        eventually(lambda: handle.status() == "cancelled")
        assert time.monotonic() - start < 3  # a second, and the settling on a loaded machine


def test_progress_in_an_open_transaction_hinders_no_lease(database, site):
    holder = tasks.progress_in_a_transaction.using(lease=60).enqueue(6)
    other = tasks.sleep.using(lease=1.5).enqueue(5)
    site.start(LEASE=1)
    site.start(LEASE=1)
    assert other.wait(60).record.attempts == 1
    assert holder.wait(60).record.result == "committed"


def test_fifty_coroutines_that_use_the_orm_overlap(database, site):
    handles = tasks.aoverlap.enqueue_many([call("overlap", 3) for _ in range(50)])
    site.start("--threads", "2")
    results = [handle.wait(60).record.result for handle in handles]
    assert max(results) >= 45
    assert kv.get("overlap") == 0


def test_a_slow_receiver_does_not_delay_the_settling_of_others(database, site):
    """The receivers of twenty jobs need five seconds of four threads; their outcomes are written long before."""
    worker = site.start_ready("--threads", "4", env={"DJQUEUE_TEST_SLOW": "1"})
    handles = tasks.adouble.enqueue_many([call(n) for n in range(20)])
    records = [handle.wait(60).record for handle in handles]
    took = max(record.completed_at for record in records) - min(record.last_attempted_at for record in records)
    assert took.total_seconds() < 2
    assert worker.events()["completed", str(handles[-1].id), 1] == 0, "the receivers are still at it"
    assert worker.stop() == 0
    assert worker.events() == {(event, str(h.id), 1): 1 for h in handles for event in ("started", "completed")}


@pytest.mark.parametrize("how", ["directory", "binary", "threads", "exit", "signals", "transaction", "connection"])
def test_a_hostile_task_does_not_harm_the_next(database, site, how):
    hostile = tasks.be_hostile.using(max_attempts=1).enqueue(how)
    worker = site.start_ready("--threads", "1")
    assert hostile.wait(30).completed
    before = os.getcwd()
    after = [tasks.double.enqueue(4), tasks.where.enqueue(), tasks.acount.enqueue("x")]
    records = [handle.wait(30).record for handle in after]
    assert [record.result for record in records] == [8, before, 0]
    assert worker.stop() == 0


@pytest.mark.parametrize("debug", [False, True])
def test_memory_does_not_grow(database, site, debug):
    worker = site.start("--threads", "4", "-v", "0", env={"DJQUEUE_TEST_DEBUG": "1"} if debug else {})
    sizes = []
    for count in (10_000, 40_000):
        tasks.count_rows.enqueue_many([call() for _ in range(count)])
        eventually(lambda: rows(Job).count() == 0, 300)
        [pid] = worker.workers()
        sizes.append(resident(pid))
    assert sizes[1] < 1.1 * sizes[0]


def resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1])


def test_a_process_is_replaced_after_its_jobs(database, site):
    handles = tasks.process_id.enqueue_many([call() for _ in range(50)])
    worker = site.start("--max-jobs", "10")
    pids = [handle.wait(60).record.result for handle in handles]
    assert len(set(pids)) == 5
    assert max(pids.count(pid) for pid in pids) == 10
    assert worker.stop() == 0


def test_a_process_is_replaced_when_it_has_grown(database, site):
    worker = site.start_ready("--max-memory", "200")
    [before] = worker.workers()
    long = tasks.sleep.enqueue(4)
    assert tasks.hold_memory.enqueue(300).wait(30).record.result == before
    worker.wait_for_log("--max-memory exceeded")
    assert eventually(lambda: tasks.process_id.enqueue().wait(30).record.result != before, 30)
    assert long.wait(30).record.attempts == 1  # it had the time that it needed
    eventually(lambda: before not in worker.members())


def test_a_project_that_hangs_in_its_import_is_started_over(database, site, tmp_path):
    env = {"DJQUEUE_TEST_HANG": str(tmp_path / "hung"), "DJQUEUE_TEST_IMPORT_WITHIN": "5"}
    worker = site.start(env=env)
    worker.wait_for_log("not imported in time, restarting", 60)
    assert tasks.double.enqueue(4).wait(60).record.result == 8


@pytest.mark.skipif(not postgres.is_ours(), reason="stops the server: unset DATABASE_URL")
def test_a_worker_stops_when_signalled_while_the_database_is_away(database, site):
    worker = site.start_ready()
    postgres.stop()
    try:
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(40) == 0
    finally:
        postgres.start_again()
        eventually(lambda: count_done() == 0, 30)


def test_a_worker_waits_for_its_tables(database, site, tmp_path):
    from django.db import connections

    with connections[database].cursor() as cursor:
        cursor.execute("ALTER TABLE djqueue_job RENAME TO djqueue_job_later")
        worker = site.start()
        try:
            worker.wait_for_log("waiting for manage.py migrate", 30)
        finally:
            cursor.execute("ALTER TABLE djqueue_job_later RENAME TO djqueue_job")
    assert tasks.double.enqueue(4).wait(60).record.result == 8


def test_code_that_changes_starts_the_worker_over(database, site, tmp_path):
    module = tmp_path / "changing" / "tasks.py"
    module.parent.mkdir()
    (module.parent / "__init__.py").touch()
    source = "import djqueue\n\n@djqueue.task(name='changing')\ndef changing():\n    return {}\n"
    module.write_text(source.format(1))
    worker = site.start("--reload", env={"PYTHONPATH": f"{tmp_path}:.", "DJQUEUE_TEST_APP": "changing"})
    assert djqueue.enqueue("changing").wait(60).record.result == 1
    time.sleep(1.1)  # the reloader compares times of files, in seconds
    module.write_text(source.format(22))
    eventually(lambda: djqueue.enqueue("changing").wait(60).record.result == 22, 60)
    worker.stop()
    eventually(lambda: not worker.members(), 30)
