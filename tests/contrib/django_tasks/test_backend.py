"""Enqueue and read: what the suites of Django and of other backends expect of a backend without running a worker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from uuid import UUID, uuid4

import django
import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

import djqueue
from djqueue.contrib.django_tasks import DjqueueBackend
from djqueue.contrib.django_tasks.compat import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_enqueued,
)
from djqueue.contrib.django_tasks.results import to_django, to_djqueue
from djqueue.exceptions import InvalidPayload
from djqueue.models import Job
from tests.contrib.django_tasks import tasks
from tests.contrib.django_tasks.tools import BACKEND, one_query, received, run
from tests.tools import in_thread, rows
from tests.worker.process.test_worker import PLAIN

if django.VERSION >= (6, 0):
    from django.tasks import default_task_backend
    from django.tasks.exceptions import TaskResultMismatch
else:
    from django_tasks import default_task_backend
    from django_tasks.exceptions import TaskResultMismatch

plain_databases = pytest.mark.databases(*PLAIN)
on_postgresql = pytest.mark.databases("postgresql")


def test_the_backend_and_its_flags():
    assert default_task_backend == task_backends["default"]
    backend = task_backends["default"]
    assert isinstance(backend, DjqueueBackend)
    assert (backend.alias, backend.options, backend.queues) == ("default", {}, {"default", "queue-1"})
    flags = ("supports_defer", "supports_async_task", "supports_get_result", "supports_priority")
    assert [getattr(backend, flag) for flag in flags] == [True] * 4


@plain_databases
@pytest.mark.parametrize("task", [tasks.noop, tasks.noop_bare, tasks.noop_async])
def test_enqueue_is_one_query_and_returns_a_ready_result(database, task):
    with received(task_enqueued) as signals, one_query():
        result = task.enqueue(1, two=3)
    assert signals == [(DjqueueBackend, result)]
    check_new(result, task, [1], {"two": 3})


@on_postgresql
@pytest.mark.parametrize("task", [tasks.noop, tasks.noop_async])
def test_aenqueue(database, task):
    with received(task_enqueued) as signals:
        result = run(task.aenqueue(1, two=3))
    assert signals == [(DjqueueBackend, result)]
    check_new(result, task, [1], {"two": 3})


def check_new(result, task, args, kwargs):
    assert UUID(result.id)
    assert len(result.id) < 64
    assert (result.status, result.is_finished) == (TaskResultStatus.READY, False)
    assert (result.started_at, result.last_attempted_at, result.finished_at) == (None, None, None)
    assert abs(timezone.now() - result.enqueued_at) < timedelta(minutes=1)
    assert (result.args, result.kwargs, result.backend) == (args, kwargs, "default")
    assert (result.attempts, result.errors, result.worker_ids) == (0, [], [])
    assert result.task == task
    with pytest.raises(ValueError, match="Task has not finished yet"):
        _ = result.return_value


def chosen(name):
    later = datetime(2031, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
    return {
        "plain": tasks.noop,
        "changed": tasks.noop.using(priority=-100, queue_name="queue-1", run_after=later),
        "past": tasks.noop.using(run_after=datetime(1960, 1, 1, tzinfo=UTC)),
        "other alias": tasks.noop.using(backend="once", queue_name="anything", priority=100),
        "options of the declaration": tasks.full,
        "options of a call": tasks.noop.using(
            max_attempts=9,
            retry=djqueue.Fixed(5, jitter=0.5),
            timeout=timedelta(seconds=1.5),
            lease=33,
            dedup_key="k",
            dedup_until="done",
            headers={"tenant": "b", "n": 1},
        ),
    }[name]


@plain_databases
@pytest.mark.parametrize(
    "name", ["plain", "changed", "past", "other alias", "options of the declaration", "options of a call"]
)
def test_a_result_is_read_back_equal_with_one_query(database, name):
    result = chosen(name).enqueue([1, {"a": None}], b=2.5)
    with one_query():
        read = task_backends["default"].get_result(result.id)
    assert read == result
    assert (read.task, read.backend) == (chosen(name), chosen(name).backend)
    with one_query():
        read.refresh()
    assert read == result


@on_postgresql
def test_results_are_read_asynchronously(database):
    async def enqueue_and_read():
        result = await tasks.noop.aenqueue()
        read = await tasks.noop.aget_result(result.id)
        await read.arefresh()
        return result == read

    assert run(enqueue_and_read())


@plain_databases
def test_a_blocked_job_is_ready(database):
    result = tasks.noop.enqueue()
    rows(Job).update(status="blocked", limit_key="k")
    assert task_backends["default"].get_result(result.id).status == TaskResultStatus.READY


@plain_databases
def test_a_missing_result(database):
    for missing in (str(uuid4()), "123", "", "x" * 100):
        with pytest.raises(TaskResultDoesNotExist):
            task_backends["default"].get_result(missing)
        with pytest.raises(TaskResultDoesNotExist):
            run(task_backends["default"].aget_result(missing))


@on_postgresql
def test_the_result_of_another_task(database):
    with pytest.raises(TaskResultMismatch):
        tasks.noop.get_result(tasks.echo.enqueue().id)
    job = tasks.of_djqueue.enqueue()
    with pytest.raises(TaskResultDoesNotExist, match="is not a task of django.tasks"):
        tasks.noop.get_result(str(job.id))


@on_postgresql
def test_tasks_are_checked_again_with_the_current_settings_at_enqueue(database):
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "QUEUES": ["unknown_queue"]}}):
        task = tasks.noop.using(queue_name="unknown_queue")
    message = "Queue 'unknown_queue' is not valid for backend"
    with pytest.raises(InvalidTask, match=message):
        task.enqueue()
    with pytest.raises(InvalidTask, match=message):
        run(task.aenqueue())
    assert not rows(Job).exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"priority": -101}, "priority must be a whole number between -100 and 100"),
        ({"priority": 101}, "priority must be a whole number between -100 and 100"),
        ({"priority": 3.1}, "priority must be a whole number between -100 and 100"),
        ({"run_after": datetime(2030, 1, 1)}, "run_after must be an aware datetime"),
        ({"run_after": datetime(9999, 1, 1, tzinfo=UTC)}, "run_at must be before the year 9000"),
        ({"queue_name": "unknown"}, "Queue 'unknown' is not valid for backend"),
        ({"queue_name": "a b", "backend": "once"}, "contains the character ' '"),
    ],
)
def test_invalid_tasks(changes, message):
    with pytest.raises(InvalidTask, match=message):
        tasks.noop.using(**changes)


def test_invalid_functions():
    def nested():
        pass

    for function in (nested, any, SimpleNamespace):
        with pytest.raises(InvalidTask, match="Task function must be defined at a module level"):
            tasks.task()(function)
    with pytest.raises(InvalidTask, match="does not have a first argument of 'context'"):
        tasks.task(takes_context=True)(tasks.meaning_of_life.func)


@on_postgresql
def test_arguments_follow_the_rule_of_django(database):
    for value in (timezone.now(), date.today(), uuid4(), Decimal(1), {1}, object(), timedelta(1)):
        with pytest.raises(TypeError, match="Unsupported type"):
            tasks.noop.enqueue(value)
        with pytest.raises(TypeError, match="Unsupported type"):
            run(tasks.noop.aenqueue(named=[value]))
    with pytest.raises(InvalidPayload, match="is nan"):
        tasks.noop.enqueue(float("nan"))
    assert not rows(Job).exists()
    result = tasks.noop.enqueue((1, b"a"), {2: {"deep": (None,)}}, tag={"$date": "2030-01-01"})
    assert result.args == [[1, "a"], {"2": {"deep": [None]}}]
    assert result.kwargs == {"tag": {"$date": "2030-01-01"}}
    assert tasks.noop.get_result(result.id) == result


@plain_databases
def test_enqueue_is_part_of_the_callers_transaction(database):
    with transaction.atomic(using=database):
        result = tasks.noop.enqueue()
        assert tasks.noop.get_result(result.id) == result
        if database != "sqlite":
            assert in_thread(rows(Job).count) == 0
    assert in_thread(rows(Job).count) == 1


def test_priorities_are_mapped_without_loss():
    assert (to_djqueue(0), to_djqueue(100)) == (djqueue.NORMAL, djqueue.HIGH)
    everything = range(-100, 101)
    assert [to_django(to_djqueue(priority)) for priority in everything] == list(everything)
    assert sorted(everything, key=to_djqueue) == sorted(everything, reverse=True)
    assert (to_django(djqueue.LOW), to_django(1), to_django(1004)) == (-100, 100, 0)


@on_postgresql
def test_a_job_is_an_ordinary_job(database):
    result = tasks.full.enqueue(1)
    job = djqueue.get_job(result.id)
    assert (job.task, job.queue, job.priority) == ("tests.contrib.django_tasks.tasks.full", "queue-1", 1063)
    assert (job.max_attempts, job.dedup_key, job.headers["tenant"]) == (7, "all", "a")
    row = rows(Job).get(pk=result.id)
    assert (row.timeout, row.lease) == (30, 20)
    assert djqueue.cancel(result.id) == "removed"


@on_postgresql
def test_the_options_of_the_backend_are_defaults(database):
    options = {"max_attempts": 5, "retry": djqueue.Fixed(7), "timeout": 9, "lease": 11}
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": options}}):
        row = rows(Job).get(pk=tasks.noop.enqueue().id)
        own = rows(Job).get(pk=tasks.noop.using(max_attempts=2).enqueue().id)
    assert (row.max_attempts, row.timeout, row.lease) == (5, 9, 11)
    assert row.retry["kind"] == "fixed"
    assert (own.max_attempts, own.timeout) == (2, 9)


@on_postgresql
@pytest.mark.parametrize("function", ["uuid.uuid4", uuid4])
def test_a_function_of_the_project_makes_the_ids(database, function):
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": {"id_function": function}}}):
        result = tasks.noop.enqueue()
        assert UUID(result.id).version == 4
        assert task_backends["default"].get_result(result.id) == result
        assert list(task_backends["default"].check()) == []


@on_postgresql
def test_an_id_function_that_returns_no_uuid_is_an_error(database):
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": {"id_function": "time.time"}}}):
        with pytest.raises(InvalidTask, match=r"TASKS\['default'\]\['OPTIONS'\]\['id_function'\]: id must be a UUID"):
            tasks.noop.enqueue()
        assert not rows(Job).exists()


def test_checks():
    assert list(task_backends["default"].check()) == list(task_backends["once"].check()) == []
    with override_settings(INSTALLED_APPS=[]):
        [error] = task_backends["default"].check()
    assert "'djqueue'" in error.hint
    options = {"max_atempts": 3, "timeout": -1, "retry": 5, "id_function": "missing.function"}
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": options}}):
        errors = [str(error.msg) for error in task_backends["default"].check()]
    assert errors[0] == (
        "TASKS['default']['OPTIONS']: Unknown option 'max_atempts'. Did you mean 'max_attempts'? "
        "Valid options: max_attempts, retry, timeout, lease, dedup_until, id_function"
    )
    assert "timeout must be" in errors[1]
    assert "retry must be a policy" in errors[2]
    assert errors[3] == "TASKS['default']['OPTIONS']: id_function: No module named 'missing'"


def test_the_backend_works_before_the_apps_are_loaded():
    """A third-party package may declare tasks in its __init__.py."""
    code = (
        "from tests.contrib.django_tasks import tasks\n"
        "from django.apps import apps\n"
        "assert not apps.ready and type(tasks.noop).__name__ == 'DjqueueTask'\n"
        "import django; django.setup()\n"
        "from djqueue.core import registry\n"
        "assert registry.find(tasks.noop.module_path).task is tasks.noop\n"
    )
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=60)


@pytest.mark.databases("sqlite")
def test_a_blocking_call_in_async_code_names_the_async_version_of_what_was_called(database):
    result = tasks.noop.enqueue()

    async def block(call):
        call()

    for spelled, call in {
        "Task.enqueue() uses the database and cannot be called in an async context. Use await task.aenqueue(...).": (
            tasks.noop.enqueue
        ),
        "Use await result.arefresh(...).": result.refresh,
        "Use await task.aget_result(...).": lambda: tasks.noop.get_result(result.id),
    }.items():
        with pytest.raises(SynchronousOnlyOperation, match=re.escape(spelled)):
            run(block(call))
