"""DJQUEUE["HEADERS"], and mistakes in both lists of hooks."""

from __future__ import annotations

import asyncio
import json

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import transaction

import djqueue
from djqueue.conf import config
from djqueue.worker.forkserver import check_project
from tests import hooks
from tests.app.tasks import add, echo
from tests.factories import DoneJobFactory, ScheduleFactory, ago
from tests.tools import statements_sent
from tests.worker.site import site

pytestmark = pytest.mark.databases("sqlite")  # no database changes what is tested here


@pytest.fixture
def headers(configure):
    """Set HEADERS to functions of `tests.hooks`."""
    hooks.seen.clear()
    yield lambda *names: configure(HEADERS=[f"tests.hooks.{name}" for name in names])
    hooks.seen.clear()


def test_the_functions_are_merged_in_order_under_the_headers_of_the_call(headers):
    headers("request_id", "counter")
    assert add.enqueue(1).job().headers == {"request_id": "nobody", "number": 1, "task": "overridden"}
    own = add.using(headers={"number": "mine", "more": 1}).enqueue(1)
    assert own.job().headers == {"request_id": "nobody", "number": "mine", "task": "overridden", "more": 1}


def test_every_form_of_enqueue_calls_them_once_per_job(headers, database):
    headers("counter")
    handles = [
        add.enqueue(1),
        add.delay(1),
        djqueue.enqueue("of.another.service"),
        *add.enqueue_many([djqueue.call(1), djqueue.call(2)]),
        *djqueue.enqueue_many([echo.call(1)]),
        asyncio.run(add.aenqueue(1)),
    ]
    with transaction.atomic(using=database):
        handles.append(add.using(on_commit=True).enqueue(1))
        assert len(hooks.seen) == len(handles)  # in the context of the caller, not of the commit
    assert [handle.job().headers["number"] for handle in handles] == [*range(1, len(handles) + 1)]
    assert hooks.seen[2] == "of.another.service"


def test_context_variables_reach_the_function_in_async_code(headers):
    async def view() -> djqueue.JobHandle:
        hooks.tenant_of.set("acme")
        return await add.aenqueue(1)

    headers("request_id")
    assert asyncio.run(view()).job().headers["request_id"] == "acme"


def test_jobs_of_schedules_and_copies_do_not_call_them(headers):
    headers("failing_headers")
    ScheduleFactory(next_at=ago(1), cron="0 0 1 1 *")
    assert djqueue.maintenance.fire_schedules() == 1
    done = DoneJobFactory(headers={"request_id": "original"})
    assert djqueue.enqueue_again(done.pk).job().headers == {"request_id": "original"}


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        (
            "failing_headers",
            KeyError,
            "Raised by tests.hooks.failing_headers, a function in DJQUEUE['HEADERS'], for a job",
        ),
        ("no_headers", djqueue.InvalidOption, "tests.hooks.no_headers in DJQUEUE['HEADERS'] must return a dictionary"),
        ("unstorable_headers", djqueue.InvalidPayload, "headers.when is of type set"),
    ],
)
def test_a_failing_function_fails_the_enqueue_and_is_named(headers, name, kind, message):
    headers(name)
    for enqueue in (lambda: add.enqueue(1), lambda: add.enqueue_many([djqueue.call(1)])):
        with statements_sent() as sent, pytest.raises(kind) as raised:
            enqueue()
        assert sent == []
        assert message in "\n".join([str(raised.value), *getattr(raised.value, "__notes__", [])])


@pytest.mark.parametrize("setting", ["AROUND", "HEADERS"])
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no.such.module", "'no.such.module' cannot be imported (ModuleNotFoundError: No module named 'no')."),
        (
            "tests.hooks.missing",
            "'tests.hooks.missing' cannot be imported (ImportError: Module \"tests.hooks\" does not",
        ),
        ("tests.hooks.NOT_CALLABLE", "'tests.hooks.NOT_CALLABLE' must be a function, but is of the type int."),
    ],
)
def test_a_path_that_cannot_be_imported_is_an_error_of_the_checks(configure, setting, path, message):
    configure(**{setting: ["tests.hooks.request_id", path]})
    [error] = [found for found in run_checks(tags=["djqueue"]) if found.id == "djqueue.E006"]
    assert error.msg.startswith(f"DJQUEUE[{setting!r}]: {message}")
    assert error.hint.startswith("Correct the dotted path, install what its module imports,")
    with pytest.raises(Exception, match=setting):
        check_project()
    if setting == "HEADERS":
        with pytest.raises(ImproperlyConfigured, match="cannot be imported|must be a function"):
            add.enqueue(1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("shop.jobs.tenant", "AROUND must be a list of dotted paths such as [\"shop.jobs.tenant\"], got 'shop.jobs"),
        ([hooks.outer], "AROUND must contain dotted paths such as \"shop.jobs.tenant\", got <function outer"),
        (["tenant"], "AROUND must contain dotted paths such as \"shop.jobs.tenant\", got 'tenant'"),
        (["shop jobs.tenant"], "got 'shop jobs.tenant'"),
    ],
)  # fmt: skip
def test_the_setting_is_a_list_of_dotted_paths(configure, given, message):
    configure(AROUND=given)
    with pytest.raises(ImproperlyConfigured) as raised:
        config()
    assert message in str(raised.value)


def test_a_worker_does_not_start_with_a_hook_that_cannot_be_imported(configure, database, tmp_path):
    handle = add.enqueue(1)
    with site(database, tmp_path) as place:
        worker = place.start("--burst", AROUND=["tests.hooks.missing"])
        assert worker.process.wait(60) == 1
        assert "(djqueue.E006) DJQUEUE['AROUND']: 'tests.hooks.missing' cannot be imported" in worker.log()
    configure(AROUND=["tests.hooks.missing"])
    with pytest.raises((CommandError, Exception), match="E006"):
        call_command("runworker", burst=True, processes=0)
    assert handle.job().attempts == 0


def test_a_worker_process_runs_the_hooks(database, tmp_path):
    with site(database, tmp_path) as place:
        handles = [hooks.plain.enqueue(), hooks.acoroutine.enqueue()]
        djqueue.kv.set("tenant", "acme")
        worker = place.start("--burst", env={"DJQUEUE_TEST_APP": "tests.hooked"}, AROUND=["tests.hooks.tenant"])
        assert worker.process.wait(60) == 0
    assert [handle.job().result for handle in handles] == [["acme", "de"]] * 2, json.dumps(worker.log())
