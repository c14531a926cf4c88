"""A worker of threads in this process, on every database."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from contextlib import contextmanager, suppress
from decimal import Decimal

import pytest
from django.db import OperationalError, connections
from django.db.backends.signals import connection_created

import djqueue
from djqueue import ModelReference, call, kv
from djqueue.fields import Unreadable
from djqueue.models import Job
from djqueue.worker.options import Options
from djqueue.worker.single_process import SingleProcess
from djqueue.worker.supervisor import admitter
from tests.app.models import Place
from tests.factories import JobFactory, ago
from tests.test_signals import heard  # noqa: F401 - a fixture
from tests.tools import PATIENCE, eventually, live, rows
from tests.worker import tasks

PLAIN = ("postgresql", "sqlite", "mysql")
pytestmark = pytest.mark.databases(*PLAIN)


def burst(**options) -> int:
    """Run until nothing is due."""
    return SingleProcess(Options(burst=True, **options)).run()


@contextmanager
def running(options: Options):
    """A worker beside the test."""
    worker = SingleProcess(options)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        if not worker.signalled:
            worker.stop()
        thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.fixture
def gate(monkeypatch):
    """Tasks that hold wait for it: `tasks.hold`, `tasks.ahold` and `tasks.block_the_loop`."""
    monkeypatch.setattr(tasks, "gate", found := threading.Event())
    yield found
    found.set()


@pytest.fixture
def working(database):
    with running(Options(threads=2)) as worker:
        yield worker


def test_jobs_of_every_kind_run_to_their_ends(database):
    plain = tasks.double.enqueue_many([call(n) for n in range(30)])
    coroutines = tasks.adouble.using(queue="other").enqueue_many([call(n) for n in range(30)])
    assert burst() == 0
    assert [handle.job().result for handle in plain] == [2 * n for n in range(30)]
    assert [handle.job().result for handle in coroutines] == [2 * n for n in range(30)]
    assert plain[0].job().attempts == 1


def test_failures_are_retried_and_their_errors_kept(database):
    handle = tasks.fail_until.enqueue(3)
    dead = tasks.fail_until.using(max_attempts=2).enqueue(9)
    burst()
    record = handle.job()
    assert (record.status, record.result, record.attempts) == ("done", "at last", 3)
    assert [error["message"] for error in record.errors] == ["not yet 1", "not yet 2"]
    assert record.errors[0]["exception"] == "builtins.ValueError"
    first, frame = record.errors[0]["traceback"].splitlines()[:2]
    assert first.startswith("Traceback")
    assert frame.endswith("in fail_until")  # without the frames of the worker
    assert record.worker_ids == [record.errors[0]["worker"]] * 3
    assert dead.status() == "dead"


@pytest.mark.parametrize(
    ("name", "status", "attempts", "error"),
    [
        ("permanent", "dead", 1, "never"),
        ("retry", "scheduled", 1, "retry requested"),
        ("snooze", "scheduled", 0, ""),
        ("cancelled", "cancelled", 1, ""),
        ("exit", "dead", 2, "3"),
        ("interrupt", "dead", 2, "KeyboardInterrupt"),
        ("snooze into the past", "dead", 2, "delay must be between 0 seconds and 100 years, got -1"),
        ("retry nonsense", "dead", 2, "delay must be seconds or a timedelta, got '60'"),
    ],
)
def test_what_a_task_raises_steers_its_job(database, name, status, attempts, error):
    handle = tasks.raise_it.using(max_attempts=2).enqueue(name)
    after = tasks.double.enqueue(1)
    burst()
    record = handle.job()
    assert (record.status, record.attempts, record.last_error) == (status, attempts, error)
    assert after.status() == "done"


@pytest.mark.parametrize("task", [tasks.return_unstorable, tasks.areturn_unstorable])
def test_a_run_is_never_repeated_because_of_its_result(database, task):
    handle = task.using(max_attempts=3, retry=djqueue.Fixed(0)).enqueue("runs")
    burst()
    assert (handle.status(), handle.job().attempts, kv.get("runs")) == ("done", 1, 1)
    assert (handle.job().result.type, handle.job().result.repr) == ("set", "{42}")


PLACES = {"plain function": tasks.visit, "coroutine": tasks.avisit}


@pytest.mark.parametrize("kind", PLACES)
def test_a_task_gets_the_current_row_of_a_model_instance(database, kind):
    place = Place.objects.using(database).create(name="old")
    handle = PLACES[kind].enqueue(place, {"price": Decimal("9.90")}, at=place)
    Place.objects.using(database).filter(pk=place.pk).update(name="new")
    burst()
    record = handle.job()
    assert record.last_error == ""
    assert record.result == [ModelReference("app.Place", database, place.pk), "new", "new", "Decimal"]
    assert record.result[0].get() == place


@pytest.mark.parametrize("kind", PLACES)
def test_a_row_that_is_gone_is_an_ordinary_failure(database, kind):
    place = Place.objects.using(database).create(name="gone")
    handle = PLACES[kind].using(max_attempts=2, retry=djqueue.Fixed(0)).enqueue(place, {})
    gone = str(ModelReference("app.Place", database, place.pk))
    place.delete(using=database)
    burst()
    record = handle.job()
    assert (record.status, record.attempts) == ("dead", 2)
    assert record.last_error == f"{gone} does not exist in the database '{database}'."
    assert record.errors[0]["exception"] == "tests.app.models.Place.DoesNotExist"
    assert str(record.args[0]) == gone


BAD_ROWS = {
    "an unknown tag": ('[{"$pickle":"gASVCg=="}]', "Unknown tag '$pickle'"),
    "an unknown model": ('[{"$model":["os.system","default",1]}]', "Unknown model 'os.system'"),
    "a value that cannot be read": ('[{"$decimal":"hunter2"}]', "Invalid tag '$decimal'"),
    "an unknown database": ('[{"$model":["app.Place","nowhere",1]}]', "nowhere"),
    "text that is not JSON": ("[1", "Expecting"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
@pytest.mark.parametrize("task", ["double", "adouble"])
def test_arguments_that_cannot_be_read_are_an_ordinary_failure(database, name, task):
    args, problem = BAD_ROWS[name]
    row = JobFactory(task=f"tests.worker.tasks.{task}", args=Unreadable(args), max_attempts=1)
    after = tasks.double.enqueue(1)
    burst()
    record = djqueue.get_job(row.id)
    assert (record.status, after.status()) == ("dead", "done")
    assert problem in record.last_error
    assert "hunter2" not in record.last_error


def test_arguments_that_do_not_fit_are_a_normal_failure(database):
    row = JobFactory(task="tests.worker.tasks.double", args=[1, 2, 3], max_attempts=1)  # of another release
    burst()
    assert djqueue.get_job(row.id).status == "dead"
    assert djqueue.get_job(row.id).errors[0]["exception"] == "builtins.TypeError"


def test_an_unknown_task_is_put_back_and_then_dies(database, configure):
    handle = djqueue.enqueue("not.registered")
    burst()
    record = handle.job()
    assert (record.status, record.attempts, record.errors) == ("scheduled", 0, [])
    assert live(handle.id).unknown_since is not None
    configure(UNKNOWN_TASK_GRACE=0)
    djqueue.reschedule(handle.id, run_at=ago(1))
    burst()
    assert handle.status() == "dead"
    assert handle.job().last_error == "no task registered: not.registered"


def test_without_a_grace_all_jobs_of_unknown_tasks_die_at_once(database, configure):
    configure(UNKNOWN_TASK_GRACE=0)
    handles = [djqueue.enqueue("not.registered") for _ in range(60)]
    burst()
    assert {handle.status() for handle in handles} == {"dead"}


def test_only_registered_tasks_run(database):
    handle = djqueue.enqueue("subprocess.getoutput", args=["echo hacked"])
    burst()
    assert handle.job().attempts == 0


def test_the_current_job(database):
    handle = tasks.look_at_itself.using(headers={"h": 1}, queue="q").enqueue()
    burst()
    assert handle.job().result == [str(handle.id), "tests.worker.tasks.look_at_itself", "q", 1, 3, {"h": 1}, False]
    with pytest.raises(djqueue.DjqueueError, match="There is no current job"):
        djqueue.current_job()


def test_progress_and_cancel_reach_a_running_task(working, database):
    """Before the first renewal of its lease, which would bring the request too."""
    handle = tasks.work_in_steps.using(lease=600).enqueue(100_000, 0.01)
    eventually(lambda: (record := handle.job()) and record.progress)
    assert handle.job().progress["total"] == 100_000
    assert handle.cancel() is djqueue.CancelOutcome.REQUESTED
    eventually(lambda: handle.status() == "cancelled")


def test_a_coroutine_is_cancelled(working, database):
    handle = tasks.asleep.enqueue(60)
    eventually(lambda: kv.get("asleep"))
    handle.cancel()
    assert eventually(lambda: handle.status() == "cancelled")


@pytest.mark.parametrize("task", [tasks.spin, tasks.asleep])
def test_a_timeout_ends_the_attempt(database, task):
    arguments = [60] if task is tasks.asleep else []
    handle = task.using(timeout=0.2, max_attempts=1).enqueue(*arguments)
    after = tasks.double.enqueue(4)
    burst(threads=1)
    assert handle.status() == "dead"
    assert handle.job().errors[0]["exception"] == "djqueue.exceptions.TaskTimeout"
    assert after.job().result == 8


def test_jobs_that_end_as_their_timeout_comes_touch_no_other(database):
    """Whatever the timing, each job ends by itself or by its own timeout, and the threads live on."""
    handles = [tasks.sleep.using(timeout=0.05, max_attempts=1).enqueue(0.05) for _ in range(60)]
    burst(threads=4)
    assert {handle.status() for handle in handles} <= {"done", "dead"}
    after = tasks.double.enqueue_many([call(n) for n in range(20)])
    burst(threads=4)
    assert {handle.status() for handle in after} == {"done"}


def test_a_transaction_left_open_is_rolled_back_and_reported(database, caplog):
    with caplog.at_level(logging.WARNING, logger="djqueue"):
        handles = [tasks.leave_a_transaction_open.enqueue(), tasks.close_the_connection.enqueue()]
        after = tasks.double.enqueue(1)
        burst(threads=1)
    assert [handle.status() for handle in handles] == ["done", "done"]
    assert "transaction left open" in caplog.text
    assert kv.get("left") is None
    assert after.status() == "done"


@pytest.mark.parametrize(
    "leave",
    [
        tasks.leave_a_transaction_open,
        tasks.leave_a_transaction_open_beside_another_connection,
        tasks.leave_autocommit_off,
    ],
)
def test_the_next_job_on_the_thread_sees_no_transaction_that_was_left_open(database, leave):
    before = tasks.see_transaction.enqueue()
    left = leave.enqueue()
    after = tasks.see_transaction.enqueue()
    burst(threads=1)
    assert before.job().result[1:] == [False, True]
    assert after.job().result == before.job().result, "on the same thread, outside any transaction"
    assert left.status() == "done"
    assert kv.get("left") is None, "it was rolled back"


def test_a_connection_whose_receiver_raised_is_cleaned_up_too(database, monkeypatch):
    monkeypatch.setitem(connections[database].settings_dict, "CONN_MAX_AGE", 60)  # as runworker does
    raised = []

    def receiver(**kwargs):
        if not raised and threading.current_thread().name.startswith("djqueue-run"):
            raised.append(True)
            raise ValueError("a receiver of the project")

    connection_created.connect(receiver)
    # The project connects its receivers first, when it is set up.
    monkeypatch.setattr(connection_created, "receivers", connection_created.receivers[::-1])
    connection_created.sender_receivers_cache.clear()
    try:
        before = tasks.see_transaction.using(max_attempts=1).enqueue()
        tasks.leave_a_transaction_open.enqueue()
        after = tasks.see_transaction.enqueue()
        burst(threads=1)
    finally:
        connection_created.disconnect(receiver)
        connection_created.sender_receivers_cache.clear()
    assert before.status() == "dead"
    assert after.job().result[1:] == [False, True], "outside any transaction"


def test_a_task_is_notified_that_its_job_was_reaped(database):
    with running(Options(threads=1)):
        handle = tasks.work_until_lost.enqueue()
        eventually(lambda: live(handle.id).started)
        eventually(lambda: reap_now(handle.id))
        eventually(lambda: kv.get("notified"))
        record = handle.wait(PATIENCE).record
    assert (record.status, record.result, record.attempts) == ("done", "second attempt", 2)
    assert [error["message"] for error in record.errors] == ["lease expired"]


def reap_now(job_id) -> int:
    """Reap a job that a worker runs; 0 when the worker has renewed the lease in between."""
    rows(Job).filter(pk=job_id).update(lease_expires_at=ago(60))
    return djqueue.maintenance.reap()


@pytest.mark.databases("postgresql")
def test_the_reaper_runs_every_reaper_interval(database, configure):
    configure(LEASE=0.4, REAPER_INTERVAL=3600)
    with after_first_turns():
        foreign = JobFactory(expired=True, max_attempts=2)
        assert tasks.sleep.using(lease=30).enqueue(2.5).wait(PATIENCE).completed
        assert live(foreign.pk).token == foreign.token, "a job that was reaped may be claimed again"
    configure(LEASE=0.4, REAPER_INTERVAL=0.1)
    with after_first_turns():
        another = JobFactory(expired=True, max_attempts=2, lease=60)
        record = djqueue.wait(another.pk, PATIENCE).record
    assert (record.status, record.attempts, record.errors[0]["message"]) == ("done", 2, "lease expired")


@contextmanager
def after_first_turns():
    """A worker all of whose periodic work was done once, as it is at the start whatever the intervals are."""
    with running(Options(threads=1)) as worker:
        eventually(lambda: all(periodic.due_at for periodic in worker.background.periodic.works))
        yield


def test_signals_are_sent_once_for_every_event(database, heard):  # noqa: F811
    handle = tasks.fail_until.enqueue(2)
    burst()
    assert handle.status() == "done"
    # Each once; a retry at once may begin before the failure has been announced.
    assert sorted(heard.names) == sorted(["queued", "started", "failed", "retrying", "started", "completed"])


def test_the_concurrency_of_a_queue_is_kept(database, configure):
    configure(QUEUES={"narrow": {"concurrency": 2}})
    handles = [tasks.overlap.using(queue="narrow").enqueue("count", 0.02) for _ in range(12)]
    burst(threads=6)
    assert max(handle.job().result for handle in handles) <= 2


def test_chosen_and_excluded_queues(database):
    a, b, c = (tasks.double.using(queue=name).enqueue(1) for name in ("a", "b", "c"))
    burst(queues={"a": None})
    assert [handle.status() for handle in (a, b, c)] == ["done", "pending", "pending"]
    burst(exclude=["c"])
    assert [handle.status() for handle in (a, b, c)] == ["done", "done", "pending"]


def test_a_paused_queue_does_not_hold_a_burst(database):
    handle = tasks.double.enqueue(1)
    djqueue.Queue("default").pause()
    burst()
    assert handle.status() == "pending"


def test_a_busy_queue_does_not_starve_another(database):
    tasks.double.using(queue="busy", priority=1).enqueue_many([call(n) for n in range(300)])
    quiet = tasks.double.using(queue="quiet").enqueue(1)
    SingleProcess(Options(burst=True, max_jobs=100, threads=2)).run()
    assert quiet.status() == "done"


def test_queues_are_preferred_in_their_order_and_none_starves(database):
    """The first has most of the claims; the last has its turns all the same, though its jobs are older."""
    last = tasks.double.using(queue="last").enqueue_many([call(n) for n in range(60)])
    first = tasks.double.using(queue="first").enqueue_many([call(n) for n in range(60)])
    burst(queues={"first": None, "last": None}, threads=1)
    ends = sorted([*first, *last], key=lambda handle: handle.job().completed_at)
    places = [place for place, handle in enumerate(ends) if handle in first]
    assert sum(places) / len(places) < 50, "59.5 would be no preference"
    assert ends.index(last[0]) < 60


def test_a_waiting_worker_starts_a_job_at_once(working, database):
    assert tasks.double.enqueue(21).wait(PATIENCE).record.result == 42


def test_a_delayed_job_is_promoted_and_run(working, database, configure):
    assert tasks.double.using(delay=0.1).enqueue(21).wait(PATIENCE).record.result == 42


def test_the_lease_of_a_long_job_is_renewed(working, database, gate):
    handle = tasks.hold.using(lease=9).enqueue()
    eventually(lambda: handle.status() == "claimed")
    first = live(handle.id).lease_expires_at
    expires_at = eventually(lambda: (found := live(handle.id).lease_expires_at) > first and found)
    assert eventually(lambda: live(handle.id).lease_expires_at > expires_at), "a second time"
    gate.set()
    assert handle.wait(PATIENCE).record.attempts == 1


def test_a_drain_gives_back_jobs_that_have_not_started(database):
    worker = SingleProcess(Options(threads=1))
    running = tasks.sleep.enqueue(1)
    waiting = tasks.sleep.enqueue_many([call(60) for _ in range(5)])
    thread = threading.Thread(target=worker.run)
    thread.start()
    eventually(lambda: worker.worker.in_hand.counts.running)
    worker.stop()
    thread.join(PATIENCE)
    assert running.status() == "done"
    records = [handle.job() for handle in waiting]
    assert [(record.status, record.attempts, record.worker_ids) for record in records] == [("pending", 0, [])] * 5


def test_jobs_that_outlive_the_grace_are_given_back_without_an_error(database, configure, gate):
    configure(SHUTDOWN_GRACE=0.2)
    worker = SingleProcess(Options(threads=1))
    handle = tasks.hold.enqueue()
    thread = threading.Thread(target=worker.run)
    thread.start()
    eventually(lambda: worker.worker.in_hand.counts.running)
    worker.stop()
    thread.join(PATIENCE)
    record = handle.job()
    assert (record.status, record.attempts, record.errors) == ("pending", 0, [])


def test_a_job_of_an_unknown_task_that_met_a_crash_is_put_back(database):
    handle = djqueue.enqueue("not.registered")
    rows(Job).filter(pk=handle.id).update(crashes=1)
    after = tasks.double.enqueue(4)
    burst()
    assert (handle.status(), handle.job().attempts, after.status()) == ("scheduled", 0, "done")


def test_a_job_that_met_a_crash_runs_alone(database):
    """Those beside it are given back, or have ended, before it starts."""
    alone = [tasks.overlap.enqueue("alone", 0.1) for _ in range(3)]
    rows(Job).update(crashes=1)
    others = tasks.overlap.enqueue_many([call("alone", 0.02) for _ in range(20)])
    burst(threads=4)
    assert [handle.job().result for handle in alone] == [1, 1, 1]
    assert {handle.status() for handle in others} == {"done"}
    assert {handle.job().attempts for handle in [*alone, *others]} == {1}


def test_a_coroutine_that_met_a_crash_runs_alone_too(database):
    """Behind as many others as there are threads, so that its row is not marked as started by the claim."""
    others = [tasks.double.enqueue(n) for n in range(4)]
    alone = tasks.adouble.enqueue(21)
    rows(Job).filter(pk=alone.id).update(crashes=1)
    others += [tasks.double.enqueue(n) for n in range(4)]
    with running(Options(threads=4, processes=0)):
        assert alone.wait(PATIENCE).record.result == 42
        assert {handle.wait(PATIENCE).record.status for handle in others} == {"done"}


@pytest.mark.databases("postgresql")
def test_a_connection_that_a_receiver_breaks_does_not_fail_the_next_job(database, monkeypatch):
    """With a persistent connection, and with the next job waiting for the thread."""
    monkeypatch.setitem(connections.settings[database], "CONN_MAX_AGE", 600)
    left = [5]

    def break_the_connection(**kwargs):
        if left[0]:
            left[0] -= 1
            with suppress(OperationalError):
                connections[database].cursor().execute("SELECT pg_terminate_backend(pg_backend_pid())")

    djqueue.signals.job_completed.connect(break_the_connection)
    try:
        handles = tasks.count_rows.using(max_attempts=1).enqueue_many([call() for _ in range(400)])
        burst(threads=1)
    finally:
        djqueue.signals.job_completed.disconnect(break_the_connection)
    assert left == [0]
    assert {handle.status() for handle in handles} == {"done"}


def test_a_task_that_leaves_the_event_loop_does_not_stop_it(database, caplog):
    handles = [tasks.exit_in_a_task_of_its_own.enqueue(), tasks.adouble.using(delay=0.5).enqueue(4)]
    burst()
    with running(Options()):
        results = [handle.wait(PATIENCE).record.result for handle in handles]
    assert results == ["stayed", 8]
    gc.collect()
    assert "never retrieved" not in caplog.text  # else asyncio would print it some time, perhaps after the last test


def test_a_coroutine_that_is_cancelled_before_its_first_line_ends_as_cancelled(database, heard):  # noqa: F811
    """While a receiver of job_started is at work."""
    started, go_on = threading.Event(), threading.Event()

    def receive(**kwargs):
        started.set()
        go_on.wait(PATIENCE)

    djqueue.signals.job_started.connect(receive)
    try:
        with running(Options()):
            handle = tasks.asleep.enqueue(60)
            assert started.wait(PATIENCE)
            handle.cancel()
            time.sleep(1.0)  # until the request has come through; it cannot be observed
            go_on.set()
            eventually(lambda: handle.status() == "cancelled")
    finally:
        djqueue.signals.job_started.disconnect(receive)


def test_a_preferred_queue_of_long_jobs_does_not_starve_the_other(database):
    """One place at a time, and yet the other has its turns."""
    first = tasks.sleep.using(queue="first").enqueue_many([call(0.1) for _ in range(30)])
    other = tasks.sleep.using(queue="other").enqueue_many([call(0.1) for _ in range(3)])
    burst(queues={"first": None, "other": None}, threads=1)
    ends = sorted([*first, *other], key=lambda handle: handle.job().completed_at)
    assert max(ends.index(handle) for handle in other) < 30


def test_a_queue_whose_permits_are_taken_does_not_block_others(database, gate):
    with running(Options(queues={"narrow": 1, "wide": None}, threads=2)):
        narrow = tasks.hold.using(queue="narrow").enqueue_many([call() for _ in range(2)])
        eventually(lambda: live(narrow[0].id).status == "claimed")
        wide = tasks.double.using(queue="wide").enqueue_many([call(n) for n in range(8)])
        for handle in wide:
            assert handle.wait(PATIENCE).completed
        assert [handle.status() for handle in narrow] == ["claimed", "pending"]
        gate.set()


def test_a_worker_hands_the_permits_of_its_jobs_on(database, monkeypatch):
    """If it left that to the supervisor, which looks at all keys from time to time, they would take minutes."""
    monkeypatch.setattr(admitter, "SWEEP", 3600.0)
    handles = tasks.double_limited.enqueue_many([call(n) for n in range(20)])
    with running(Options(threads=2)):
        assert handles[-1].wait(PATIENCE).completed


def test_coroutines_run_while_all_threads_are_busy(database, gate):
    with running(Options(threads=1)):
        busy = tasks.hold.enqueue()
        eventually(lambda: live(busy.id).status == "claimed")
        assert tasks.asleep.using(queue="coroutines").enqueue(0.01).wait(PATIENCE).completed
        assert busy.status() == "claimed"
        gate.set()


def test_the_first_signal_during_another_drain_does_not_force(database):
    with running(Options(threads=1, max_jobs=1)) as worker:
        handle = tasks.sleep.enqueue(1)
        eventually(lambda: worker.worker.in_hand.counts.running)
        worker.worker.drain("--max-memory exceeded")
        worker.stop()
    assert (handle.status(), worker.worker.forced) == ("done", False)


def test_progress_that_is_too_large_is_refused(database, configure):
    configure(MAX_PAYLOAD_SIZE=1000)
    handle = tasks.report_progress.using(max_attempts=1).enqueue(500)
    burst()
    record = handle.job()
    assert record.errors[0]["exception"] == "djqueue.exceptions.PayloadTooLarge"
    assert "progress too large: 10" in record.last_error


@pytest.mark.parametrize("task", [tasks.wait_for_cancel, tasks.await_for_cancel])
def test_waiting_for_a_cancel_that_does_not_come_ends_with_the_timeout(database, task):
    handle = task.enqueue(0.1)
    burst()
    assert (handle.status(), handle.job().result) == ("done", False)


def test_a_task_that_waits_for_a_cancel_wakes_up_when_it_is_requested(working, database):
    handle = tasks.wait_for_cancel.enqueue(None)
    eventually(lambda: kv.get("waiting"))
    assert handle.cancel() is djqueue.CancelOutcome.REQUESTED
    assert handle.wait(PATIENCE).record.result is True


def test_a_coroutine_that_waits_for_a_cancel_ends_as_cancelled(working, database):
    handle = tasks.await_for_cancel.enqueue(None)
    eventually(lambda: kv.get("waiting"))
    handle.cancel()
    assert handle.wait(PATIENCE).record.status == "cancelled"


def test_a_coroutine_cannot_end_between_the_wake_up_and_its_cancel(working, database):
    handle = tasks.await_for_cancel.enqueue(None)
    eventually(lambda: kv.get("waiting"))
    [holding] = working.worker.in_hand.held
    eventually(lambda: vars(holding).get("waiters"))

    def let_the_loop_run() -> None:
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.05), working.worker.pool.loop.loop).result(PATIENCE)

    with holding.waking(let_the_loop_run):  # called after the coroutine has been woken
        working.worker.update([holding.claim], [])
    assert handle.wait(PATIENCE).record.status == "cancelled"


def test_a_task_that_waits_for_a_cancel_runs_into_its_timeout(working, database):
    handle = tasks.only_wait_for_cancel.using(timeout=0.3, max_attempts=1).enqueue()
    assert handle.wait(PATIENCE).record.errors[0]["exception"] == "djqueue.exceptions.TaskTimeout"


def test_a_task_that_waits_for_a_cancel_learns_that_its_lease_is_lost(working, database):
    handle = tasks.wait_for_cancel.using(max_attempts=1).enqueue(None)
    eventually(lambda: kv.get("waiting"))
    [holding] = working.worker.in_hand.held
    working.worker.update([], [holding.claim])
    assert handle.wait(PATIENCE).record.errors[0]["exception"] == "djqueue.exceptions.LeaseLost"


@pytest.fixture
def closing(monkeypatch):
    monkeypatch.setattr(tasks, "closing", found := tasks.Closing())
    yield found
    found.go_on.set()


@pytest.mark.parametrize("task", [tasks.close_late, tasks.aclose_late])
def test_a_timeout_after_the_end_of_the_tasks_code_changes_nothing(working, database, closing, task):
    """It comes while the connections of the task are being closed."""
    handle = task.using(timeout=1).enqueue()
    assert closing.begun.wait(PATIENCE)
    [holding] = working.worker.in_hand.held
    eventually(lambda: time.monotonic() > holding.started_at + 1.5)
    closing.go_on.set()
    record = handle.wait(PATIENCE).record
    assert (record.status, record.result, record.errors) == ("done", "succeeded", [])


def test_a_cancel_after_the_end_of_a_coroutine_changes_nothing(working, database, closing):
    """It comes while the connections of the task are being closed, which it does not interrupt."""
    handle = tasks.aclose_late.enqueue()
    assert closing.begun.wait(PATIENCE)
    handle.cancel()
    [holding] = working.worker.in_hand.held
    eventually(lambda: holding.cancel_requested)
    arrived = threading.Event()
    working.worker.pool.loop.loop.call_soon_threadsafe(arrived.set)  # behind the cancel
    assert arrived.wait(PATIENCE)
    closing.go_on.set()
    record = handle.wait(PATIENCE).record
    assert (record.status, record.result) == ("done", "succeeded")
