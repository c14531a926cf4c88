"""DJQUEUE["AROUND"]: context managers around every task call, of plain functions and of coroutines."""

from __future__ import annotations

import os

import pytest
from django.core.management import call_command
from django.db import transaction
from django.utils import translation

import djqueue
from djqueue import kv
from djqueue.worker.options import Options
from tests import hooks
from tests.tools import eventually
from tests.worker.process.test_worker import burst, running

pytestmark = pytest.mark.databases("sqlite")  # no database changes what is tested here
TASKS = {"plain function": hooks.plain, "coroutine": hooks.acoroutine}


@pytest.fixture
def around(configure):
    """Set AROUND to functions of `tests.hooks`."""
    hooks.seen.clear()
    yield lambda *names, **options: configure(AROUND=[f"tests.hooks.{name}" for name in names], **options)
    hooks.seen.clear()


def run(task: djqueue.Task, *args: object, **options: object) -> djqueue.JobRecord:
    handle = task.using(max_attempts=1, **options).enqueue(*args)
    assert burst(threads=1) == 0
    return handle.job()


@pytest.mark.parametrize("kind", TASKS)
def test_context_managers_are_entered_in_order(around, kind):
    around("outer", "inner")
    assert run(TASKS[kind]).status == "done"
    entered = ("enter outer", TASKS[kind].name, True)  # current_job() is the job that they are given
    assert hooks.seen == [entered, "enter inner", "task", "leave inner", "leave outer"]


@pytest.mark.parametrize("kind", TASKS)
def test_a_plain_context_manager_may_use_the_database_and_context_variables(around, kind):
    around("tenant")
    kv.set("tenant", "acme")
    assert run(TASKS[kind]).result == ["acme", "de"]
    assert hooks.seen == ["task", ("left", "nobody", True)]


def test_what_a_coroutine_sets_is_seen_when_its_context_manager_is_left(around):
    @djqueue.task(name="sets a variable")
    async def change() -> None:
        hooks.tenant_of.set("changed")

    around("inner", "checks")
    hooks.checks = checks
    try:
        assert run(change).status == "done"
    finally:
        del hooks.checks
    assert "changed" in hooks.seen


class checks:  # noqa: N801
    def __init__(self, job: object) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *raised: object) -> None:
        hooks.seen.append(hooks.tenant_of.get())


@pytest.mark.parametrize("kind", TASKS)
def test_the_exception_of_a_task_passes_through_and_its_traceback_starts_at_the_task(around, kind):
    around("outer", "tenant", "inner")
    record = run(TASKS[kind], "boom")
    assert (record.status, record.last_error) == ("dead", "boom")
    assert ("outer saw", "ValueError") in hooks.seen
    first, frame = record.errors[0]["traceback"].splitlines()[:2]
    assert first.startswith("Traceback")
    assert frame.endswith(("in plain", "in acoroutine"))


@pytest.mark.parametrize("kind", TASKS)
def test_a_context_manager_that_suppresses_the_exception_makes_the_job_done(around, kind):
    around("suppressing")
    record = run(TASKS[kind], "boom")
    assert (record.status, record.result, record.errors) == ("done", None, [])


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize(
    ("name", "message", "ran"),
    [
        ("fails", "hook failed", False),
        ("fails_on_entering", "no such tenant", False),
        ("fails_on_leaving", "cannot leave", True),
        ("nothing", "nothing in DJQUEUE['AROUND'] must return a context manager, got NoneType. Return one.", False),
        ("without_decorator", "got generator. Decorate it with @contextlib.contextmanager.", False),
        ("coroutine", "must return a context manager, got coroutine.", False),
    ],
)
def test_a_failure_of_a_hook_is_a_failed_attempt(around, kind, name, message, ran):
    around("outer", name)
    record = run(TASKS[kind])
    assert (record.status, len(record.errors)) == ("dead", 1)
    assert message in record.last_error
    assert ("task" in hooks.seen) is ran
    assert hooks.seen[-1] == "leave outer"


@pytest.mark.parametrize("kind", TASKS)
def test_a_hook_controls_the_job_like_a_task(around, kind):
    around("snoozes")
    record = run(TASKS[kind])
    assert (record.status, record.attempts) == ("scheduled", 0)


def test_an_async_context_manager_is_for_coroutines_alone(around):
    around("asynchronous")
    assert run(hooks.acoroutine).status == "done"
    assert hooks.seen == ["enter asynchronous", "task", "leave asynchronous"]
    record = run(hooks.plain)
    assert "the task tests.hooks.plain is a plain function. Return a plain context manager" in record.last_error


@pytest.mark.parametrize("kind", TASKS)
def test_the_timeout_covers_the_hooks(around, kind):
    around("slow")
    record = run(TASKS[kind], timeout=0.2)
    assert record.errors[0]["exception"].endswith("TaskTimeout")
    assert "task" not in hooks.seen


def test_a_coroutine_cancelled_while_a_hook_is_entered_leaves_it(around):
    around("waits")
    hooks.entering.clear(), hooks.may_enter.clear()
    with running(Options(threads=1)) as worker:
        handle = hooks.aforever.enqueue()
        assert hooks.entering.wait(60)
        handle.cancel()
        eventually(lambda: handle.job().cancel_requested)
        eventually(lambda: next(iter(worker.worker.in_hand.held)).cancel_requested)
        hooks.may_enter.set()
        assert handle.wait(60).record.status == "cancelled"
    assert "task" not in hooks.seen
    assert hooks.seen[-1] == "left after all"


@pytest.mark.parametrize("kind", TASKS)
def test_hooks_run_in_a_burst_inside_a_transaction(around, kind, database):
    around("tenant", "outer")
    with transaction.atomic(using=database):
        kv.set("tenant", "acme")
        handle = TASKS[kind].enqueue()
        call_command("runworker", burst=True)
        assert handle.job().result == ["acme", "de"]
    assert (hooks.tenant_of.get(), translation.get_language()) == ("nobody", "en-us")  # nothing leaks to the caller


def test_a_process_forked_by_a_task_does_not_leave_the_hooks(around, tmp_path):
    @djqueue.task(name="forks")
    def forks() -> int:
        child = os.fork()
        return os.waitpid(child, 0)[1] if child else 0

    around("leaves_a_mark")
    hooks.mark = tmp_path / "mark"
    hooks.leaves_a_mark = leaves_a_mark
    try:
        assert run(forks).result == 0
    finally:
        del hooks.leaves_a_mark
    assert hooks.mark.read_text() == f"{os.getpid()}\n"


class leaves_a_mark:  # noqa: N801
    def __init__(self, job: object) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *raised: object) -> None:
        with hooks.mark.open("a") as file:
            file.write(f"{os.getpid()}\n")
