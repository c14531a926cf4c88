"""A worker runs what the backend enqueues: outcomes, order, contexts, paths that are no tasks, signals and logs."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import contextmanager
from datetime import timedelta

import django
import pytest
from django.db import transaction
from django.utils import timezone

import djqueue
from djqueue import maintenance, testing
from djqueue.contrib.django_tasks import DjqueueBackend
from djqueue.contrib.django_tasks.compat import task_backends, task_enqueued, task_finished, task_started
from djqueue.lifecycle import announce
from djqueue.models import DeadJob, Job
from djqueue.states import Outcome
from tests.contrib.django_tasks import moved, tasks
from tests.contrib.django_tasks.tools import finish, received, work
from tests.tools import claim_one, eventually, rows
from tests.worker.process.test_worker import PLAIN

LOGGER = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"
MARK = {"django_tasks": {"backend": "default"}}  # the header of jobs made through the backend
HERE = "tests.contrib.django_tasks.tasks"
plain_databases = pytest.mark.databases(*PLAIN)
on_postgresql = pytest.mark.databases("postgresql")


@plain_databases
@pytest.mark.parametrize("task", [tasks.meaning_of_life, tasks.meaning_of_life_async])
def test_success(database, task):
    result = task.enqueue()
    assert (result.status, result.attempts) == ("READY", 0)
    finish(result)
    assert (result.status, result.is_finished, result.return_value) == ("SUCCESSFUL", True, 42)
    assert (result.attempts, len(result.worker_ids), result.errors) == (1, 1, [])
    check_times(result)
    assert task.get_result(result.id) == result


def check_times(result):
    assert result.enqueued_at <= result.started_at <= result.last_attempted_at <= result.finished_at


@plain_databases
@pytest.mark.parametrize(
    ("task", "kind", "end"),
    [
        (tasks.value_error, ValueError, "ValueError: This task failed due to ValueError\n"),
        (tasks.value_error_async, ValueError, "ValueError: This task failed due to ValueError\n"),
        (tasks.nested_error, ValueError, "ValueError: This task failed\n"),
        (tasks.chained_error, ValueError, "ValueError: the effect\n"),
        (tasks.system_exit, SystemExit, "SystemExit: This task failed due to SystemExit\n"),
        (tasks.system_exit_async, SystemExit, "SystemExit: This task failed due to SystemExit\n"),
        (tasks.keyboard_interrupt, KeyboardInterrupt, "KeyboardInterrupt: This task failed due to KeyboardInterrupt\n"),
        (tasks.exit_task, SystemExit, "SystemExit: 1\n"),
        (tasks.permanent, djqueue.PermanentFailure, "djqueue.exceptions.PermanentFailure: never\n"),
    ],
)
def test_failure_in_a_single_attempt(database, task, kind, end):
    result, after = task.enqueue(), tasks.meaning_of_life.enqueue()
    finish(result)
    assert (result.status, result.is_finished, result.attempts) == ("FAILED", True, 1)
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    [error] = result.errors
    assert error.exception_class is kind
    assert error.traceback.endswith(end)
    assert error.traceback.startswith("Traceback (most recent call last):")
    assert "djqueue/contrib" not in error.traceback
    check_times(result)
    after.refresh()
    assert after.status == "SUCCESSFUL"  # the worker went on


@on_postgresql
def test_the_chain_of_an_error_is_kept(database):
    assert "KeyError: 'the cause'" in finish(tasks.chained_error.enqueue()).errors[0].traceback
    assert 'ValueError(ValueError("This task failed"))' in finish(tasks.nested_error.enqueue()).errors[0].traceback


@plain_databases
@pytest.mark.parametrize(("task", "reason"), [(tasks.bad_value, "Unsupported type"), (tasks.nan, "is nan")])
def test_a_return_value_that_cannot_be_stored_fails_the_job_once(database, task, reason):
    result = finish(task.enqueue())
    assert (result.status, result._return_value, result.attempts) == ("FAILED", None, 1)
    [error] = result.errors
    assert error.exception_class is TypeError
    assert reason in error.traceback
    assert "is not JSON serializable" in error.traceback
    assert tasks.ran in ([], ["bad_value"])


@contextmanager
def note_error(job):
    try:
        yield
    except Exception as error:
        tasks.ran.append(type(error))
        raise


@on_postgresql
def test_hooks_see_the_error_of_the_task_itself(database, configure):
    configure(AROUND=[f"{__name__}.note_error"])
    later, never = tasks.backs_off_long.enqueue(), tasks.bad_value.enqueue()
    work()
    assert tasks.ran == [ValueError, "bad_value", TypeError]
    job = djqueue.get_job(later.id)
    assert (job.status, job.run_at > timezone.now() + timedelta(minutes=59)) == ("scheduled", True)
    assert djqueue.get_job(never.id).status == "dead"


@on_postgresql
def test_return_values_are_normalised(database):
    assert finish(tasks.normalised.enqueue()).return_value == {"tuple": [1, 2], "bytes": "abc", "3": None}
    assert finish(tasks.echo.enqueue((1,), a=b"b")).return_value == [[[1]], {"a": "b"}]


@on_postgresql
def test_the_context(database):
    results = [tasks.task_id.enqueue(), tasks.check_context.enqueue(1), tasks.context_async.enqueue()]
    work()
    for result in results:
        result.refresh()
    assert [result.return_value for result in results] == [results[0].id, [1], [results[2].id, 1]]


@plain_databases
def test_attempts_are_counted_and_their_errors_kept(database):
    with received(task_started) as started, received(task_finished) as finished:
        result = finish(tasks.third_time.enqueue())
    assert (result.return_value, result.attempts, len(result.worker_ids)) == (3, 3, 3)
    assert [error.traceback.splitlines()[-1] for error in result.errors] == [
        "ValueError: attempt 1",
        "ValueError: attempt 2",
    ]
    assert [found.attempts for _, found in started] == [1, 2, 3]
    assert finished == [(DjqueueBackend, result)]  # not after each attempt


@on_postgresql
def test_a_result_between_two_attempts_is_ready(database):
    result = finish(tasks.backs_off_long.enqueue())
    assert (result.status, result.attempts, result.finished_at, len(result.errors)) == ("READY", 1, None, 1)
    assert result.started_at is not None
    delay = djqueue.get_job(result.id).run_at - timezone.now()
    assert timedelta(minutes=59) < delay <= timedelta(hours=1)
    assert finish(tasks.backs_off.enqueue()).attempts == 2


@on_postgresql
def test_a_running_result(database):
    result = tasks.noop.enqueue()
    job = claim_one()
    result.refresh()
    assert (result.status, result.attempts, result.worker_ids) == ("RUNNING", 1, [job.worker])
    assert result.started_at == result.last_attempted_at == job.claimed_at
    assert result.finished_at is None
    with pytest.raises(ValueError, match="Task has not finished yet"):
        _ = result.return_value


@plain_databases
def test_order_and_queues(database):
    for priority in (-100, -1, 0, 1, 100):
        tasks.note.using(priority=priority).enqueue(priority)
    tasks.note.enqueue("second")
    tasks.note.using(queue_name="queue-1").enqueue("other queue")
    later = tasks.note.using(run_after=timezone.now() + timedelta(hours=1)).enqueue("later")
    tasks.note.using(run_after=timezone.now() - timedelta(hours=1), priority=50).enqueue("past")
    work("--queue", "default")
    assert tasks.ran == [100, "past", 1, 0, "second", -1, -100]
    work("--exclude", "queue-1")
    assert len(tasks.ran) == 7
    work()
    assert tasks.ran[7:] == ["other queue"]
    later.refresh()
    assert later.status == "READY"


@on_postgresql
def test_run_after_may_be_a_timedelta(database):
    before = timezone.now()
    task = tasks.note.using(run_after=timedelta(hours=1))
    result = task.enqueue("later")
    assert before <= result.task.run_after - timedelta(hours=1) <= timezone.now()
    assert task.get_result(result.id) == result
    assert djqueue.get_job(result.id).run_at == result.task.run_after


@plain_databases
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("subprocess.check_output", "InvalidTask"),
        (f"{HERE}.not_a_task", "InvalidTask"),
        (f"{HERE}.subprocess", "InvalidTask"),
        (f"{HERE}.some_test", "ImportError"),
        ("missing.func", "ModuleNotFoundError"),
        ("nodots", "ImportError"),
    ],
)
def test_a_path_that_is_no_task_fails_at_once_and_is_never_called(database, path, kind):
    attempts = 3 if kind == "InvalidTask" else 1
    bad = djqueue.enqueue(path, [["exit", "1"]], headers=MARK, max_attempts=attempts)
    good = tasks.meaning_of_life.enqueue()
    work()
    good.refresh()
    assert good.status == "SUCCESSFUL"
    job = bad.job()
    assert (job.status, job.attempts) == ("dead", 1)
    assert kind in job.errors[0]["exception"]
    assert tasks.ran == []


@on_postgresql
def test_the_test_kit_raises_an_error_for_a_path_that_is_no_task(database):
    djqueue.enqueue("missing.func", headers={"django_tasks": {}}, max_attempts=1)
    with pytest.raises(djqueue.DjqueueError, match=r"task missing\.func could not run: No module named 'missing'"):
        testing.run_pending()
    djqueue.enqueue("missing.func", headers=MARK)
    with pytest.raises(djqueue.DjqueueError, match=r"no task registered: 'missing\.func'"):
        testing.run_pending()


@on_postgresql
@pytest.mark.parametrize(
    ("path", "error"),
    [("missing.func", "No module named 'missing'"), (f"{HERE}.missing", 'does not define a "missing" attribute')],
)
def test_a_task_of_another_release_is_put_back_until_the_grace_is_over(database, configure, path, error):
    handle = djqueue.enqueue(path, headers=MARK)
    work()
    assert (handle.status(), handle.job().attempts) == ("scheduled", 0)
    configure(UNKNOWN_TASK_GRACE=0)
    djqueue.reschedule(handle.id, run_at=timezone.now())
    work()
    assert handle.status() == "dead"
    assert error in handle.job().last_error


@on_postgresql
@pytest.mark.parametrize(("attempts", "waiting"), [(1, 0), (3, 30)])
def test_many_paths_that_are_no_tasks(database, attempts, waiting):
    djqueue.enqueue_many([djqueue.Call((), {}, "no.task").using(headers=MARK, max_attempts=attempts)] * 30)
    work()
    assert (rows(Job).count(), rows(DeadJob).count()) == (waiting, 30 - waiting)


@on_postgresql
def test_an_unknown_task_without_the_mark_is_put_back_as_before(database):
    handles = [djqueue.enqueue("subprocess.check_output"), djqueue.enqueue(f"{HERE}.not_a_task")]
    work()
    assert {handle.status() for handle in handles} == {"scheduled"}


@on_postgresql
def test_a_task_of_another_backend_runs_when_it_is_moved(database):
    """It is a Task of Django, without djqueue's options."""
    result = moved.plain.using(backend="once", queue_name="queue-1", priority=3).enqueue(2)
    assert type(result.task).__module__ != "djqueue.contrib.django_tasks.task"
    assert task_backends["default"].get_result(result.id) == result
    assert (result.backend, djqueue.get_job(result.id).max_attempts) == ("once", 1)
    assert finish(result).return_value == 4


@on_postgresql
def test_a_job_of_a_backend_that_was_removed_runs_with_that_of_its_task(database, settings):
    result = tasks.meaning_of_life.using(backend="once").enqueue()
    settings.TASKS = {alias: backend for alias, backend in settings.TASKS.items() if alias != "once"}
    with received(task_finished) as finished:
        work()
    found = tasks.meaning_of_life.get_result(result.id)
    assert (found.return_value, found.backend) == (42, "default")
    assert finished == [(DjqueueBackend, found)]


@on_postgresql
def test_a_module_that_exits_when_it_is_imported_ends_no_other_process(database, tmp_path, monkeypatch):
    (tmp_path / "exits.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    call = djqueue.Call((), {}, "exits.func").using(headers={"django_tasks": {}}, max_attempts=1)
    cancelled, lost, failed = djqueue.enqueue_many([call, call, call])
    assert cancelled.cancel() == "removed"
    claim_one(lease=0.001)
    assert eventually(maintenance.reap) == 1
    work()
    assert (lost.status(), failed.status()) == ("dead", "dead")
    assert failed.job().errors[0]["exception"] == "builtins.SystemExit"


@on_postgresql
def test_a_task_is_enqueued_by_name_and_by_a_schedule(database):
    handle = djqueue.enqueue(tasks.check_context.module_path, [1])
    typed = djqueue.enqueue(tasks.noop.module_path, [timezone.now()])
    work()
    assert handle.job().result == [1]
    result = tasks.check_context.get_result(str(handle.id))
    assert (result.return_value, result.backend, result.task) == ([1], "default", tasks.check_context)
    assert isinstance(tasks.noop.get_result(str(typed.id)).args[0], str)
    djqueue.schedules.create("daily", task=tasks.noop.module_path, cron="0 0 * * *")
    assert djqueue.schedules.run_now("daily")
    with pytest.raises(djqueue.InvalidArguments):
        djqueue.enqueue(tasks.check_context.module_path, [])  # the context is not an argument


# Signals


@plain_databases
def test_signals_are_sent_in_order_with_equal_results(database):
    with received(task_enqueued) as enqueued, received(task_started) as started, received(task_finished) as finished:
        done, failed = tasks.meaning_of_life.enqueue(), tasks.value_error.enqueue()
        work()
    assert enqueued == [(DjqueueBackend, done), (DjqueueBackend, failed)]
    assert [(sender, found.id, found.status, found.attempts) for sender, found in started] == [
        (DjqueueBackend, done.id, "RUNNING", 1),
        (DjqueueBackend, failed.id, "RUNNING", 1),
    ]
    done.refresh()
    failed.refresh()
    assert finished == [(DjqueueBackend, done), (DjqueueBackend, failed)]


@on_postgresql
def test_a_coroutine_sends_its_signals(database):
    with received(task_started) as started, received(task_finished) as finished:
        result = finish(tasks.meaning_of_life_async.enqueue())
    assert [found.status for _, found in started] == ["RUNNING"]
    assert finished == [(DjqueueBackend, result)]


@on_postgresql
@pytest.mark.parametrize("task", [tasks.meaning_of_life, tasks.meaning_of_life_async])
def test_an_error_of_a_receiver_fails_nothing(database, task):
    def broken(**kwargs):
        raise RuntimeError("receiver")

    for sent in (task_enqueued, task_started, task_finished):
        sent.connect(broken)
    try:
        assert finish(task.enqueue()).return_value == 42
    finally:
        for sent in (task_enqueued, task_started, task_finished):
            sent.disconnect(broken)


@on_postgresql
def test_a_receiver_in_place_of_djangos_is_not_called_by_the_completer(database, monkeypatch):
    found = []

    def receive(task_result, **kwargs):
        found.append((threading.current_thread().name, len(task_result.errors)))

    monkeypatch.setattr(task_finished, "receivers", [])
    task_finished.connect(receive)
    tasks.third_time.using(max_attempts=2).enqueue()
    work()
    [(thread, errors)] = found
    assert thread != "djqueue-completer"
    assert errors == 2


@plain_databases
def test_a_cancelled_job_has_failed(database):
    result = tasks.noop.enqueue()
    with received(task_finished) as finished:
        with transaction.atomic(using=database):
            djqueue.cancel(result.id)
            assert finished == []
        result.refresh()
        assert finished == [(DjqueueBackend, result)]
    assert (result.status, result.attempts, result.is_finished) == ("FAILED", 0, True)
    assert [error.exception_class for error in result.errors] == [djqueue.Cancelled]


@plain_databases
def test_a_job_whose_lease_expired_has_failed(database):
    result = tasks.noop.using(max_attempts=1).enqueue()
    claim_one(lease=0.001)
    with received(task_finished) as finished:
        eventually(maintenance.reap)
    result.refresh()
    assert finished == [(DjqueueBackend, result)]
    assert (result.status, result.attempts) == ("FAILED", 1)
    [error] = result.errors
    assert error.exception_class is djqueue.DjqueueError
    assert error.traceback == "djqueue.exceptions.DjqueueError: lease expired\n"


@on_postgresql
def test_a_job_that_is_not_kept_sends_task_finished(database, configure):
    configure(KEEP_DONE=0)
    with received(task_finished) as finished:
        result = tasks.meaning_of_life.enqueue()
        work()
    [(_, found)] = finished
    assert (found.id, found.status, found.return_value) == (result.id, "SUCCESSFUL", 42)
    assert found.finished_at >= found.started_at
    assert djqueue.get_job(result.id) is None


@on_postgresql
def test_logs(database, caplog):
    caplog.set_level(logging.DEBUG, LOGGER)
    done, failed = tasks.noop.enqueue(), tasks.value_error.enqueue()
    work()
    records = [record for record in caplog.records if record.name == LOGGER]
    lines = [(record.levelname, record.getMessage()) for record in records]
    assert [line for line in lines if str(done.id) in line[1]] == [
        ("DEBUG", f"Task id={done.id} path={HERE}.noop enqueued backend=default"),
        ("INFO", f"Task id={done.id} path={HERE}.noop state=RUNNING"),
        ("INFO", f"Task id={done.id} path={HERE}.noop state=SUCCESSFUL"),
    ]
    assert [line for line in lines if str(failed.id) in line[1]] == [
        ("DEBUG", f"Task id={failed.id} path={HERE}.value_error enqueued backend=once"),
        ("INFO", f"Task id={failed.id} path={HERE}.value_error state=RUNNING"),
        ("ERROR", f"Task id={failed.id} path={HERE}.value_error state=FAILED"),
    ]
    assert len(lines) == 6
    [error] = [record for record in records if record.levelname == "ERROR"]
    assert error.exc_info[0] is ValueError
    text = logging.Formatter().format(error)
    assert text.endswith("ValueError: This task failed due to ValueError")
    assert "None" not in text
    assert "djqueue/" not in text


@pytest.mark.databases("sqlite")
def test_the_log_has_the_tasks_own_exception_in_a_test_too(database, caplog):
    tasks.value_error.enqueue()
    testing.run_pending(raise_errors=False)
    with testing.eager(), pytest.raises(ValueError, match="This task failed"):
        tasks.value_error.enqueue()
    failed = [record for record in caplog.records if record.name == LOGGER and record.levelname == "ERROR"]
    assert [record.exc_info[0] for record in failed] == [ValueError, ValueError]


@on_postgresql
def test_the_test_kit_logs_the_error_of_the_task(database, caplog):
    tasks.value_error.enqueue()
    testing.run_pending(raise_errors=False)
    [record] = [record for record in caplog.records if record.name == LOGGER and record.levelname == "ERROR"]
    assert record.exc_info[0] is ValueError


@on_postgresql
def test_sensitive_arguments_and_on_dead(database, caplog):
    result = tasks.login.enqueue("ann", password="tulip-and-more")
    finish(result)
    assert tasks.died == [(djqueue.get_job(result.id).id, 1)]
    assert result.errors[0].exception_class is ValueError
    assert "tulip" not in result.errors[0].traceback
    assert "tulip" not in caplog.text


@on_postgresql
def test_a_dedup_key_returns_the_waiting_job(database):
    with received(task_enqueued) as enqueued:
        first = tasks.noop.using(dedup_key="k").enqueue(1)
        second = tasks.noop.using(dedup_key="k").enqueue(2)
    assert second == first
    assert enqueued == [(DjqueueBackend, first)]


def test_only_tasks_of_django_have_a_callback_at_their_end():
    assert not announce.has_receivers(tasks.of_djqueue.name, Outcome.DONE)
    assert announce.has_receivers(tasks.noop.module_path, Outcome.DONE)
    assert not announce.has_receivers(tasks.noop.module_path, Outcome.RETRYING)


# Processes


@on_postgresql
def test_a_killed_process_fails_its_task_and_task_finished_is_sent(database, site, tmp_path):
    """The supervisor, which has not imported the project, passes the outcome on to a new process."""
    result = tasks.kill.enqueue()
    file = tmp_path / "finished"
    site.start("--threads", "1", "--processes", "1", env={"DJQUEUE_TEST_FINISHED": str(file)})
    expected = f"DjqueueBackend {result.id} FAILED\n"
    eventually(lambda: file.exists() and file.read_text() == expected, 60)
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == ("FAILED", 1, 1)
    assert result.errors[0].traceback == "djqueue.exceptions.DjqueueError: worker process killed by signal 9\n"


@on_postgresql
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_task_finish(database, site, number):
    result = tasks.sleep.enqueue(1)
    worker = site.start("--threads", "1", "--processes", "1")
    eventually(lambda: worker.events()["started", result.id, 1], 60)
    assert worker.stop(number) == 0
    result.refresh()
    assert result.status == "SUCCESSFUL"


@on_postgresql
def test_a_timeout_fails_the_task(database, site):
    result = tasks.slow.enqueue()
    assert site.start("--burst", "--threads", "1", "--processes", "0").process.wait(60) == 0
    result.refresh()
    assert (result.status, [error.exception_class for error in result.errors]) == ("FAILED", [djqueue.TaskTimeout])


@on_postgresql
def test_three_workers_share_the_jobs(database, site):
    results = [tasks.noop.enqueue() for _ in range(10)]
    workers = [site.start("--burst", "--threads", "1", "--processes", "0") for _ in range(3)]
    assert [worker.process.wait(60) for worker in workers] == [0, 0, 0]
    for result in results:
        result.refresh()
    assert {(result.status, result.attempts) for result in results} == {("SUCCESSFUL", 1)}
