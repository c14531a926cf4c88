"""A worker of threads in this process, on every database."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager

import pytest

import djqueue
from djqueue import call, kv
from djqueue.models import Job
from djqueue.worker.options import Options
from djqueue.worker.single import SingleProcess
from tests.factories import ago
from tests.test_signals import heard  # noqa: F401 - a fixture
from tests.tools import eventually, live, rows
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
        thread.join(30)
    assert not thread.is_alive()


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
    assert "fail_until" in record.errors[0]["traceback"]
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
        ("snooze into the past", "dead", 2, "delay must be between 0 seconds and 100 years, not -1.0"),
        ("retry nonsense", "dead", 2, "delay must be seconds or a timedelta, not str"),
    ],
)
def test_what_a_task_raises_steers_its_job(database, name, status, attempts, error):
    handle = tasks.raise_it.using(max_attempts=2).enqueue(name)
    after = tasks.double.enqueue(1)
    burst()
    record = handle.job()
    assert (record.status, record.attempts, record.last_error) == (status, attempts, error)
    assert after.status() == "done"


def test_a_result_that_cannot_be_stored_is_a_failure_that_says_so(database):
    handle = tasks.return_unstorable.using(max_attempts=1).enqueue()
    burst()
    assert handle.status() == "dead"
    assert "result is of type object" in handle.job().last_error


def test_arguments_that_do_not_fit_are_a_normal_failure(database):
    handle = djqueue.enqueue("tests.worker.tasks.double", args=[1, 2, 3], max_attempts=1)
    burst()
    assert handle.status() == "dead"
    assert handle.job().errors[0]["exception"] == "builtins.TypeError"


def test_an_unknown_task_is_put_back_and_then_dies(database, configure):
    handle = djqueue.enqueue("nobody.knows")
    burst()
    record = handle.job()
    assert (record.status, record.attempts, record.errors) == ("scheduled", 0, [])
    assert live(handle.id).unknown_since is not None
    configure(UNKNOWN_TASK_GRACE=0)
    djqueue.reschedule(handle.id, run_at=ago(1))
    burst()
    assert handle.status() == "dead"
    assert handle.job().last_error == "no task registered: nobody.knows"


def test_only_registered_tasks_run(database):
    handle = djqueue.enqueue("subprocess.getoutput", args=["echo hacked"])
    burst()
    assert handle.job().attempts == 0


def test_the_current_job(database):
    handle = tasks.look_at_itself.using(headers={"h": 1}, queue="q").enqueue()
    burst()
    assert handle.job().result == [str(handle.id), "tests.worker.tasks.look_at_itself", "q", 1, 3, {"h": 1}, False]
    with pytest.raises(djqueue.DjqueueError, match="no current job"):
        djqueue.current_job()


def test_progress_and_cancel_reach_a_running_task(working, database):
    handle = tasks.work_in_steps.enqueue(2000, 0.01)
    eventually(lambda: (record := handle.job()) and record.progress)
    assert handle.job().progress["total"] == 2000
    assert handle.cancel() is djqueue.CancelOutcome.REQUESTED
    start = time.monotonic()
    eventually(lambda: handle.status() == "cancelled")
    assert time.monotonic() - start < 3


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
    assert tasks.double.enqueue(21).wait(10).record.result == 42


def test_a_delayed_job_is_promoted_and_run(working, database, configure):
    assert tasks.double.using(delay=0.1).enqueue(21).wait(10).record.result == 42


def test_a_long_job_keeps_its_lease(working, database):
    handle = tasks.sleep.using(lease=2).enqueue(4)
    eventually(lambda: handle.status() == "claimed")
    deadline = time.monotonic() + 3.5
    while time.monotonic() < deadline:
        assert djqueue.maintenance.reap() == 0
        time.sleep(0.2)
    assert handle.wait(10).record.attempts == 1


def test_a_drain_gives_back_what_was_not_begun(database):
    worker = SingleProcess(Options(threads=1))
    running = tasks.sleep.enqueue(1)
    waiting = tasks.sleep.enqueue_many([call(60) for _ in range(5)])
    thread = threading.Thread(target=worker.run)
    thread.start()
    eventually(lambda: worker.worker.budget.running)
    worker.stop()
    thread.join(30)
    assert running.status() == "done"
    records = [handle.job() for handle in waiting]
    assert [(record.status, record.attempts, record.worker_ids) for record in records] == [("pending", 0, [])] * 5


def test_what_outlives_the_grace_is_given_back_without_an_error(database, configure):
    configure(SHUTDOWN_GRACE=0.2)
    worker = SingleProcess(Options(threads=1))
    handle = tasks.sleep.enqueue(3)
    thread = threading.Thread(target=worker.run)
    thread.start()
    eventually(lambda: worker.worker.budget.running)
    worker.stop()
    thread.join(30)
    record = handle.job()
    assert (record.status, record.attempts, record.errors) == ("pending", 0, [])


def test_a_job_of_an_unknown_task_that_met_a_crash_is_put_back(database):
    handle = djqueue.enqueue("nobody.knows")
    rows(Job).filter(pk=handle.id).update(crashes=1)
    after = tasks.double.enqueue(4)
    burst()
    assert (handle.status(), handle.job().attempts, after.status()) == ("scheduled", 0, "done")


def test_a_job_that_met_a_crash_runs_alone(database):
    """Those beside it are given back, or have ended, before it begins."""
    alone = [tasks.overlap.enqueue("alone", 0.1) for _ in range(3)]
    rows(Job).update(crashes=1)
    others = tasks.overlap.enqueue_many([call("alone", 0.02) for _ in range(20)])
    burst(threads=4)
    assert [handle.job().result for handle in alone] == [1, 1, 1]
    assert {handle.status() for handle in others} == {"done"}
    assert {handle.job().attempts for handle in [*alone, *others]} == {1}


def test_a_task_that_leaves_the_event_loop_does_not_stop_it(database):
    handles = [tasks.exit_in_a_task_of_its_own.enqueue(), tasks.adouble.using(delay=0.5).enqueue(4)]
    burst()
    with running(Options()):
        results = [handle.wait(20).record.result for handle in handles]
    assert results == ["stayed", 8]


def test_a_coroutine_that_is_cancelled_before_its_first_line_ends_as_cancelled(database, heard):  # noqa: F811
    """While a receiver of job_started is at work."""
    begun, go_on = threading.Event(), threading.Event()

    def receive(**kwargs):
        begun.set()
        go_on.wait(20)

    djqueue.signals.job_started.connect(receive)
    try:
        with running(Options()):
            handle = tasks.asleep.enqueue(60)
            assert begun.wait(20)
            handle.cancel()
            time.sleep(1.0)  # until the request has come through; nothing tells of that
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


def test_a_queue_whose_permits_are_taken_does_not_stand_in_the_way(database):
    with running(Options(queues={"narrow": 1, "wide": None}, threads=2)):
        narrow = tasks.sleep.using(queue="narrow").enqueue_many([call(3) for _ in range(2)])
        eventually(lambda: live(narrow[0].id).status == "claimed")
        wide = tasks.double.using(queue="wide").enqueue_many([call(n) for n in range(8)])
        for handle in wide:
            assert handle.wait(2).completed
        assert [handle.status() for handle in narrow] == ["claimed", "pending"]


def test_coroutines_run_while_all_threads_are_busy(database):
    with running(Options(threads=1)):
        busy = tasks.sleep.enqueue(4)
        eventually(lambda: live(busy.id).status == "claimed")
        assert tasks.asleep.using(queue="coroutines").enqueue(0.01).wait(3).completed
        assert busy.status() == "claimed"


def test_the_first_signal_during_another_drain_does_not_force(database):
    with running(Options(threads=1, max_jobs=1)) as worker:
        handle = tasks.sleep.enqueue(1)
        eventually(lambda: worker.worker.budget.running)
        worker.worker.drain("it has passed --max-memory")
        worker.stop()
    assert (handle.status(), worker.worker.forced) == ("done", False)
