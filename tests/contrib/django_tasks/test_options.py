"""djqueue's options on tasks of django.tasks, on every version of Django."""

from __future__ import annotations

import pickle
from datetime import timedelta

import django
import pytest

import djqueue
from djqueue.contrib import django_tasks
from djqueue.contrib.django_tasks import DjqueueTask
from djqueue.contrib.django_tasks.compat import InvalidTask, task_backends
from djqueue.core import registry
from tests.contrib.django_tasks import moved, tasks
from tests.contrib.django_tasks.tools import BACKEND

FORWARDS = not (6, 0) <= django.VERSION < (6, 1)  # Django's decorator passes options on
decorators = pytest.mark.parametrize("decorator", [tasks.task, django_tasks.task] if FORWARDS else [django_tasks.task])


@decorators
def test_the_decorator_accepts_options(decorator):
    policy = djqueue.Fixed(5)
    task = decorator(priority=3, max_attempts=3, retry=policy, timeout=timedelta(minutes=1), dedup_key="k")(
        tasks.noop.func
    )
    assert isinstance(task, DjqueueTask)
    assert (task.priority, task.max_attempts, task.retry, task.timeout, task.dedup_key) == (3, 3, policy, 60.0, "k")
    assert (task.lease, task.run_after, task.takes_context, task.headers) == (None, None, False, None)


@decorators
def test_the_decorator_refuses_what_it_does_not_know(decorator):
    with pytest.raises(TypeError, match="unknown"):
        decorator(unknown=1)(tasks.noop.func)
    with pytest.raises(TypeError, match="run_after"):
        decorator(run_after=timedelta(1))(tasks.noop.func)


def test_the_bare_decorator():
    assert django_tasks.task(tasks.noop.func) == tasks.noop


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_attempts": 0}, "max_attempts must be"),
        ({"retry": 5}, "retry must be a policy such as djqueue.Exponential"),
        ({"timeout": -1}, "timeout must be"),
        ({"lease": "x"}, "lease must be"),
        ({"dedup_key": ""}, "dedup_key must be a non-empty string"),
        ({"dedup_until": "never"}, 'dedup_until must be "claimed" or "done"'),
        ({"headers": 1}, "headers must be a dictionary"),
        ({"on_dead": 1}, "on_dead must be callable"),
        ({"sensitive": "password"}, "sensitive must be a list"),
        ({"backoff": 1}, "backoff must be a function"),
    ],
)
def test_invalid_options(options, message):
    with pytest.raises(InvalidTask, match=message):
        django_tasks.task(**options)(tasks.noop.func)


def test_using_changes_options_and_none_leaves_them():
    task = tasks.full.using(max_attempts=1, timeout=None, headers={"tenant": "b"})
    assert (task.max_attempts, task.timeout, task.headers) == (1, 30, {"tenant": "b"})
    assert tasks.full.max_attempts == 7
    assert tasks.full.using() == tasks.full
    with pytest.raises(TypeError, match="Unknown option 'takes_context'. Valid options: priority, queue_name"):
        tasks.full.using(takes_context=True)


def test_a_task_is_hashable():
    assert len({tasks.full, tasks.full.using(headers={"tenant": "b"}), tasks.full.using(max_attempts=1)}) == 3


@pytest.mark.skipif(django.VERSION < (6, 1), reason="tasks are picklable since Django 6.1")
def test_tasks_and_results_are_picklable():
    for task in (tasks.noop, tasks.full, moved.plain):
        assert pickle.loads(pickle.dumps(task)) == task
    result = tasks.full.using(backend="dummy").enqueue(1)
    assert pickle.loads(pickle.dumps(result)) == result


def test_djqueue_knows_the_task_as_it_is_declared():
    tasks.full.using(max_attempts=1, queue_name="default")
    options = registry.options(tasks.full.module_path)
    assert (options.max_attempts, options.queue, options.priority) == (7, "queue-1", 1063)
    assert (options.timeout, options.lease, options.dedup_until) == (30, 20, "done")
    assert registry.options(tasks.value_error.module_path).max_attempts == 1  # of its backend
    assert registry.options(tasks.login.module_path).sensitive == ("password",)
    assert registry.describe()[tasks.full.module_path]["max_attempts"] == 7


def test_the_backends_for_tests_accept_the_options():
    result = django_tasks.task(max_attempts=3, backend="immediate")(tasks.meaning_of_life.func).enqueue()
    assert (result.return_value, result.task.max_attempts) == (42, 3)
    dummy = task_backends["dummy"]
    dummy.clear()
    result = tasks.full.using(backend="dummy").enqueue(1)
    assert dummy.results == [result]
    assert (result.status, result.task.max_attempts) == ("READY", 7)


@pytest.mark.parametrize("task", [tasks.meaning_of_life, tasks.meaning_of_life_async])
def test_a_task_is_called_directly(task):
    assert task.call() == 42
    assert registry.find(task.module_path).task is task
    if task is tasks.meaning_of_life:
        assert registry.find(task.module_path).func() == 42  # also as djqueue calls it
    with pytest.raises(djqueue.DjqueueError, match="takes a context, which only a worker provides"):
        registry.find(tasks.task_id.module_path).func()


def test_an_invalid_default_is_reported_with_its_place(settings):
    settings.TASKS = {"default": {"BACKEND": BACKEND, "OPTIONS": {"unknown": 1, "timeout": -1}}}
    with pytest.raises(InvalidTask, match=r"^TASKS\['default'\]\['OPTIONS'\]: timeout must be .*, got -1"):
        django_tasks.task(tasks.noop.func)
