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
from tests.processes.test_reload import change
from tests.tools import database_now, eventually, live, rows
from tests.worker import tasks
from tests.worker.site import constants

pytestmark = pytest.mark.databases("postgresql")
LONG = 600  # seconds: longer than any test


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
    # It does not give jobs back because the running one takes longer than those before.
    worker = site.start("--threads", "1", env=constants(STUCK_AFTER=LONG, WORK_IN_HAND=2), SHUTDOWN_GRACE=LONG)
    eventually(lambda: rows(Job).count() == 0)  # it has learnt that jobs are short
    djqueue.Queue("work").pause()
    running = tasks.wait_for.using(queue="work", priority=1).enqueue("go")
    held = tasks.double.using(queue="work").enqueue_many([call(n) for n in range(20)])
    djqueue.Queue("work").resume()
    # How many it prefetches depends on how fast it was, and so on the load of this machine.
    eventually(lambda: worker.started([running]) and rows(Job).filter(status="claimed").count() > 1)
    worker.process.terminate()
    eventually(lambda: rows(Job).filter(status="pending", attempts=0).count() == 20)
    assert running.status() == "claimed"
    kv.set("go", True)
    assert worker.process.wait(60) == 0
    assert (running.status(), running.job().attempts) == ("done", 1)
    assert all(handle.job().worker_ids == [] for handle in held)


@pytest.mark.skipif(not postgres.is_ours(), reason="restarts the server: unset DATABASE_URL")
def test_the_database_is_restarted_five_times_under_load(database, site):
    handles = []
    worker = site.start("--threads", "4", "--processes", "2")
    for turn in range(5):
        eventually(lambda: count_done() >= 0)
        handles += tasks.sleep.enqueue_many([call(0.005) for _ in range(1000)])
        before = count_done()
        eventually(lambda: count_done() > before + 50)
        postgres.restart("immediate" if turn % 2 else "fast")
    eventually(lambda: count_done() == len(handles), 180)
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
def test_after_an_outage_living_workers_renew_before_any_reaps(database, site, tmp_path):
    """The outage is longer than the lease; no job is taken."""
    handle = tasks.wait_for_file.using(lease=6).enqueue(str(tmp_path / "go"))
    workers = [site.start_ready(LEASE=30, REAPER_INTERVAL=0.2) for _ in range(2)]
    eventually(lambda: sum(worker.started([handle]) for worker in workers))
    token = live(handle.id).token
    postgres.stop()
    time.sleep(8)
    postgres.start_again()
    eventually(lambda: count_done() >= 0)
    eventually(lambda: live(handle.id).lease_expires_at > database_now())
    assert live(handle.id).token == token
    (tmp_path / "go").touch()
    eventually(lambda: count_done() == 1)
    assert handle.job().attempts == 1
    for worker in workers:
        worker.wait_for_log("INFO database available again seconds=")
        lines = worker.log().count("WARNING database unavailable, trying again until it responds what=")
        assert 1 <= lines <= 2, "one of the supervisor, and one of its process"


def test_a_cancel_reaches_a_running_task_without_notify_long_before_its_lease_is_renewed(database, site):
    site.start_ready(NOTIFY=False, POLL_INTERVAL=0.2)
    for task, arguments in ((tasks.work_in_steps, [100 * LONG, 0.01]), (tasks.asleep, [LONG])):
        handle = task.using(lease=3 * LONG).enqueue(*arguments)
        eventually(lambda: live(handle.id).started)
        handle.cancel()
        eventually(lambda: handle.status() == "cancelled")


def test_progress_in_an_open_transaction_hinders_no_lease(database, site, tmp_path):
    """The lease of another job of the process is renewed, again and again, while the row of the first is locked."""
    begun, end = tmp_path / "begun", tmp_path / "end"
    holder = tasks.progress_in_a_transaction.using(lease=60).enqueue(str(begun), str(end))
    other = tasks.wait_for_file.using(lease=6).enqueue(str(end))
    worker = site.start("--threads", "2")
    site.start("--queue", "another", REAPER_INTERVAL=0.5)
    eventually(lambda: begun.exists() and worker.started([other]))
    for _ in range(4):
        expires = live(other.id).lease_expires_at
        eventually(lambda: live(other.id).lease_expires_at > expires)
    end.touch()
    assert other.wait(60).record.attempts == 1
    assert holder.wait(60).record.result == "committed"


def test_fifty_coroutines_that_use_the_orm_overlap(database, site):
    """Each returns when all of them run."""
    handles = tasks.ameet.enqueue_many([call("overlap", 50) for _ in range(50)])
    site.start("--threads", "2")
    assert all(handle.wait(100).completed for handle in handles)
    assert {handle.job().attempts for handle in handles} == {1}


def test_a_slow_receiver_does_not_delay_the_settling_of_others(database, site, tmp_path):
    """The receivers of twenty jobs wait in four threads; the outcomes of all are written meanwhile."""
    worker = site.start_ready("--threads", "4", env={"DJQUEUE_TEST_GATE": str(tmp_path / "go")})
    handles = tasks.adouble.enqueue_many([call(n) for n in range(20)])
    assert all(handle.wait(60).completed for handle in handles)
    assert worker.events() == {("started", str(handle.id), 1): 1 for handle in handles}, "the receivers still wait"
    (tmp_path / "go").touch()
    assert worker.stop() == 0
    assert worker.events() == {(event, str(h.id), 1): 1 for h in handles for event in ("started", "completed")}


@pytest.mark.parametrize("how", ["directory", "binary", "threads", "exit", "signals", "transaction", "connection"])
def test_a_hostile_task_does_not_harm_the_next(database, site, how):
    hostile = tasks.be_hostile.using(max_attempts=1).enqueue(how)
    worker = site.start_ready("--threads", "1")
    assert hostile.wait(60).completed
    before = os.getcwd()
    after = [tasks.double.enqueue(4), tasks.where.enqueue(), tasks.acount.enqueue("x")]
    records = [handle.wait(60).record for handle in after]
    assert [record.result for record in records] == [8, before, 0]
    assert worker.stop() == 0


@pytest.mark.timeout(900)
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
    long = tasks.wait_for.enqueue("go")
    eventually(lambda: worker.started([long]))
    assert tasks.hold_memory.enqueue(300).wait(60).record.result == before
    worker.wait_for_log("--max-memory exceeded")
    assert eventually(lambda: tasks.process_id.enqueue().wait(60).record.result != before)
    kv.set("go", True)
    record = long.wait(60).record
    assert (record.attempts, len(record.worker_ids)) == (1, 1)  # it had the time that it needed
    eventually(lambda: before not in worker.members())


def test_a_project_that_hangs_in_its_import_is_started_over(database, site, tmp_path):
    # So long that the second import, which must not take longer, succeeds on a busy machine too.
    worker = site.start(env={"DJQUEUE_TEST_HANG": str(tmp_path / "hung")} | constants(IMPORT_WITHIN=20))
    worker.wait_for_log("not imported in time, restarting")
    assert tasks.double.enqueue(4).wait(120).record.result == 8


@pytest.mark.skipif(not postgres.is_ours(), reason="stops the server: unset DATABASE_URL")
def test_a_worker_stops_when_signalled_while_the_database_is_away(database, site):
    worker = site.start_ready()
    postgres.stop()
    try:
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(120) == 0
    finally:
        postgres.start_again()
        eventually(lambda: count_done() == 0)


def test_a_worker_waits_for_its_tables(database, site, tmp_path):
    from django.db import connections

    with connections[database].cursor() as cursor:
        cursor.execute("ALTER TABLE djqueue_job RENAME TO djqueue_job_later")
        worker = site.start()
        try:
            worker.wait_for_log("waiting for manage.py migrate")
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
    change(worker, module, source.format(22))
    eventually(lambda: djqueue.enqueue("changing").wait(60).record.result == 22, 120)
    worker.stop()
    eventually(lambda: not worker.members())
