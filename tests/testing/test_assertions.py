"""`assert_enqueued` and `assert_not_enqueued`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from unittest.mock import ANY
from zoneinfo import ZoneInfo

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import SynchronousOnlyOperation
from django.db import transaction

import djqueue
from djqueue import testing
from djqueue.conf import config
from tests.app.models import Place
from tests.testing.tasks import fail, log_in, note, typed
from tests.worker.process.test_worker import PLAIN

pytestmark = pytest.mark.databases(*PLAIN)
NOON = datetime(2100, 1, 1, 12, tzinfo=UTC)


def refused(check=testing.assert_enqueued, *args, **kwargs) -> str:
    with pytest.raises(AssertionError) as raised:
        check(*args, **kwargs)
    return str(raised.value)


def test_what_is_left_out_is_not_compared(place):
    handle = note.using(queue="email", priority=7, headers={"a": 1, "b": 2}, dedup_key="k", delay=60).enqueue("x")
    for wanted in (
        {},
        {"args": ["x"]},
        {"args": ("x",), "kwargs": {}, "queue": "email", "priority": 7, "times": 1},
        {"headers": {"a": 1}},
        {"dedup_key": "k"},
        {"delay": 60},
        {"delay": timedelta(minutes=1)},
        {"args": [ANY]},
    ):
        assert [record.id for record in testing.assert_enqueued(note, **wanted)] == [handle.id]
        refused(testing.assert_not_enqueued, note, **{k: v for k, v in wanted.items() if k != "times"})
    for other in (
        {"args": ["y"]},
        {"args": []},
        {"kwargs": {"text": "x"}},
        {"queue": "default"},
        {"priority": 8},
        {"headers": {"a": 2}},
        {"headers": {"c": None}},
        {"dedup_key": "l"},
        {"delay": 61},
        {"run_at": NOON},
    ):
        refused(testing.assert_enqueued, note, **other)
        testing.assert_not_enqueued(note, **other)
    refused(testing.assert_enqueued, note, times=2)
    testing.assert_enqueued(note.name)
    testing.assert_not_enqueued(fail)
    testing.assert_enqueued(fail, times=0)


def test_jobs_that_have_run_count_whatever_became_of_them(place):
    note.enqueue("x")
    fail.using(max_attempts=1).enqueue("y")
    testing.run_pending(raise_errors=False)
    assert testing.assert_enqueued(note, args=["x"])[0].status == "done"
    assert testing.assert_enqueued(fail, args=["y"])[0].status == "dead"


def test_typed_arguments_and_model_instances_compare_equal(place, database):
    instance = Place.objects.using(database).create(name="here")
    other = Place.objects.using(database).create(name="there")
    berlin = datetime(2026, 1, 1, 13, tzinfo=ZoneInfo("Europe/Berlin"))
    typed.using(run_at=NOON).enqueue(instance, Decimal("9.90"), (1, 2), at=berlin)
    testing.assert_enqueued(
        typed,
        args=[instance, Decimal("9.9"), [1, 2]],
        kwargs={"at": berlin.astimezone(UTC)},
        run_at=NOON.astimezone(ZoneInfo("Asia/Tokyo")),
    )
    assert f"Place', database='{database}', pk={instance.pk}" in refused(testing.assert_enqueued, typed, args=[other])
    testing.assert_not_enqueued(typed, args=[other, Decimal("9.9"), [1, 2]])
    instance.delete()


def test_the_message_lists_what_was_enqueued_instead(database):
    assert refused(testing.assert_enqueued, note) == (f"Expected a job of {note.name}, found 0.\nNo job was enqueued.")
    fail.enqueue("z")
    note.using(queue="email", priority=3).enqueue("y")
    note.using(delay=5).enqueue(text="x")
    note.enqueue("x")
    message = refused(testing.assert_enqueued, note, args=["x"], queue="email", times=2)
    assert message.splitlines() == [
        f"Expected 2 jobs of {note.name} args=['x'] queue='email', found 0.",
        "Enqueued:",
        f"  {note.name}('y') queue='email' status=pending",
        f"  {note.name}('x') queue='default' status=pending",
        f"  {note.name}(text='x') queue='default' status=scheduled",
        f"  {fail.name}('z') queue='default' status=pending",
    ]
    message = refused(testing.assert_enqueued, note, priority=4, delay=5)
    assert f"{note.name}('y') queue='email' priority=3 delay=0 status=pending" in message
    message = refused(testing.assert_not_enqueued, note, args=["x"])
    assert message.splitlines() == [
        f"Expected no job of {note.name} args=['x'], found 1.",
        "Enqueued:",
        f"  {note.name}('x') queue='default' status=pending",
    ]
    note.enqueue_many([djqueue.call("more")] * 30)
    assert "… and 14 more" in refused(testing.assert_enqueued, fail, args=["a"])


@pytest.mark.databases("sqlite")
def test_sensitive_arguments_are_masked(database):
    log_in.enqueue("ada", password="hunter22")
    message = refused(testing.assert_enqueued, log_in, args=["bob"], kwargs={"password": "correct horse"})
    assert "'ada'" in message
    assert "********" in message
    assert "hunter22" not in message
    assert "correct horse" not in message


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"args": "x"}, "args must be a list or tuple, got str"),
        ({"args": 42}, "args must be a list or tuple, got int"),
        ({"kwargs": ["x"]}, "kwargs must be a dictionary, got list"),
        ({"times": -1}, "times must be a whole number from 0"),
        ({"run_at": datetime(2026, 1, 1)}, "run_at must be an aware datetime"),
        ({"task": 42}, "task must be a task or the name of one, got 42"),
    ],
)
def test_mistakes_are_named(database, wrong, problem):
    with pytest.raises(djqueue.InvalidOption, match=re.escape(problem)):
        testing.assert_enqueued(wrong.pop("task", note), **wrong)


def test_from_an_event_loop(place):
    @async_to_sync
    async def run() -> None:
        await note.aenqueue("x")
        with pytest.raises(SynchronousOnlyOperation, match=r"await djqueue.testing.aassert_enqueued\(...\)"):
            testing.assert_enqueued(note)
        await testing.aassert_enqueued(note, args=["x"])
        await testing.aassert_not_enqueued(fail)

    run()


def test_a_message_names_what_waits_for_a_commit(place):
    waits = "Functions that wait for the commit: 2. The transaction of a test does not commit"
    with transaction.atomic(using=config().database):
        note.using(on_commit=True).enqueue("x")
        transaction.on_commit(lambda: note.enqueue("y"), using=config().database)
        assert waits in refused(testing.assert_enqueued, note)
        note.enqueue("z")
        assert waits in refused(testing.assert_enqueued, note, times=2)
        assert waits not in refused(testing.assert_enqueued, note, times=0)
        transaction.set_rollback(True, using=config().database)


def test_a_message_suggests_registered_names(place):
    assert refused(testing.assert_enqueued, "tests.testing.tasks.fial").splitlines()[2:] == [
        "No task 'tests.testing.tasks.fial' is registered. Similar names: tests.testing.tasks.fail."
    ]
    assert "registered" not in refused(testing.assert_enqueued, fail)


@pytest.mark.parametrize("check", [testing.assert_enqueued, testing.assert_not_enqueued])
def test_an_unknown_argument_is_an_error(place, check):
    with pytest.raises(TypeError, match=r"Unknown argument 'quee'\. Valid arguments: args, kwargs, queue, "):
        check("x", quee=None)
