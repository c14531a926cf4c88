from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

import djqueue
from djqueue.core import registry
from tests.app.tasks import add, later


def test_a_task_is_still_a_plain_function():
    assert add(1, 2) == 3
    assert (add.__name__, add.__module__) == ("add", "tests.app.tasks")
    assert asyncio.run(later("x")) == "x"
    assert repr(add) == "<Task tests.app.tasks.add>"


def test_using_does_not_change_the_task():
    changed = add.using(queue="a").using(priority=5)
    assert (changed.call_options.queue, changed.call_options.priority) == ("a", 5)
    assert add.call_options.queue is None
    assert changed(1, 1) == 2


def test_a_task_name_is_unique():
    @djqueue.task(name="tests.unique")
    def one() -> None: ...

    with pytest.raises(
        djqueue.DuplicateTask, match=r"'tests.unique' is already registered for .*one. Set another name for .*two"
    ):

        @djqueue.task(name="tests.unique")
        def two() -> None: ...

    assert registry.find("tests.unique") is one


def test_a_reloaded_module_registers_its_tasks_again():
    import importlib

    import tests.app.tasks

    before = registry.find("shop.charge")
    importlib.reload(tests.app.tasks)
    assert registry.find("shop.charge") is not before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue": "a b"}, "contains the character"),
        ({"max_attempts": "3"}, "max_attempts must be a whole number"),
        ({"on_dead": 5}, "on_dead must be callable"),
        ({"sensitive": "password"}, "sensitive must be a list"),
        ({"maxattempts": 3}, "Unknown option 'maxattempts'. Valid options: queue, priority"),
        ({"delay": 3}, "Unknown option 'delay'"),
        ({"name": "x\x00"}, "task name .* contains the character"),
    ],
)
def test_invalid_options_of_a_task_are_refused_by_the_decorator(options, message):
    with pytest.raises(djqueue.InvalidOption, match=message):

        @djqueue.task(**options)
        def never() -> None: ...


def test_only_functions_are_tasks():
    for thing in (5, "name", type("Thing", (), {})):
        with pytest.raises(djqueue.InvalidOption, match="expects a function, got"):
            djqueue.task(thing)


def test_tasks_of_installed_apps_are_discovered():
    assert registry.find("tests.app.tasks.steady") is not None
    assert {"tests.app.tasks.add", "shop.charge"} <= {task.name for task in registry.all_tasks()}


def test_every_public_name_exists():
    for name in djqueue.__all__:
        assert getattr(djqueue, name) is not None
    assert set(djqueue.__all__) <= set(dir(djqueue))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = djqueue.nothing


def test_tasks_may_be_declared_before_apps_are_ready():
    code = "import djqueue; t = djqueue.task(name='early')(lambda: 1); print(t(), t.name)"
    env = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "1 early\n"


def test_two_lambdas_on_one_line_are_different_tasks(monkeypatch):
    one, two = (lambda: 1), (lambda: 2)
    djqueue.task(name="tests.lambda")(one)
    with pytest.raises(djqueue.DuplicateTask):
        djqueue.task(name="tests.lambda")(two)


def test_callables_without_qualname_need_a_task_name():
    from functools import partial

    with pytest.raises(djqueue.InvalidOption, match="has no __qualname__; set a task name"):
        djqueue.task(partial(int, "5"))
    made = djqueue.task(name="tests.partial")(partial(int, "5"))
    assert made() == 5
    with pytest.raises(djqueue.DuplicateTask):
        djqueue.task(name="tests.partial")(partial(int, "6"))


def test_a_claim_knows_the_leases_of_tasks_that_are_not_imported_yet():
    code = (
        "import django; django.setup(); from djqueue.core import registry; assert not registry._tasks; "
        "print(registry.task_leases()['shop.charge'])"
    )
    env = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "12.0\n", done.stderr
