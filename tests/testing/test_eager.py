"""`eager()` and DJQUEUE["EAGER"]: jobs run when they are enqueued."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.db import connections, transaction
from django.test import TestCase

import djqueue
from djqueue import schedules, testing
from djqueue.models import Job
from tests.test_signals import heard  # noqa: F401 - a fixture
from tests.testing.tasks import Boom, anested, anote, fail, for_ever, nested, note, notes, steer
from tests.tools import in_thread, rows, statements_sent
from tests.worker.process.test_worker import PLAIN

pytestmark = pytest.mark.databases(*PLAIN)


def test_a_job_runs_at_once_and_leaves_the_rows_of_production(place, database):
    before = connections[database].connection
    with testing.eager():
        handle = note.using(queue="email", priority=7).enqueue("x")
        assert (handle.created, handle.status(), handle.job().result) == (True, "done", "x")
        assert (handle.job().attempts, handle.job().priority, handle.job().queue) == (1, 7, "email")
        assert handle.wait(1).completed
    assert note.enqueue("later").status() == "pending"
    assert connections[database].connection is before


def test_the_setting_does_the_same(place, configure):
    configure(EAGER=True)
    assert note.enqueue("x").status() == "done"
    configure(EAGER=False)
    assert note.enqueue("y").status() == "pending"


@pytest.mark.databases("postgresql")
def test_plain_enqueues_send_one_statement(database):
    note.enqueue("warm up")
    with statements_sent() as sent:
        note.enqueue("x")
    assert len(sent) == 1


def test_every_form_of_enqueue(place):
    with testing.eager():
        djqueue.enqueue(note.name, ["name"])
        note.enqueue_many([djqueue.call("many 1"), djqueue.call("many 2")])
        schedules.create("s", task=note, every=60, args=["schedule"])
        handle = schedules.run_now("s")
        assert handle.job().status == "done"
        note.using(delay=3600).enqueue("delayed")
        djqueue.enqueue_again(handle.id)
    assert notes() == ["name", "many 1", "many 2", "schedule", "delayed", "schedule"]
    assert rows(Job).count() == 0


def test_schedules_that_fire(place, monkeypatch):
    monkeypatch.setattr("djqueue.schedules.in_code.declarations", dict)
    schedules.create("s", task=note, every=60, args=["slot"])
    with testing.eager():
        testing.advance(125)
    assert notes() == ["slot", "slot"]


def test_a_failing_task_raises_to_the_enqueuer_and_is_settled(place):
    with testing.eager():
        with pytest.raises(Boom):
            fail.enqueue()
        with pytest.raises(Boom):
            fail.using(max_attempts=1).enqueue()
        with pytest.raises(Boom):
            djqueue.enqueue_many([note.call("a"), fail.call(), note.call("b")])
        assert steer.enqueue("snooze").status() == "scheduled"
        assert steer.enqueue("retry").status() == "scheduled"
    assert notes() == ["fail 1", "fail 1", "a", "fail 1", "b"]
    assert sorted(record.status for record in testing.assert_enqueued(fail)) == ["dead", "scheduled", "scheduled"]
    assert rows(Job).filter(status="claimed").count() == 0


def test_an_error_rolls_back_the_transaction_of_the_caller(database):
    with testing.eager(), pytest.raises(Boom), transaction.atomic(using=database):
        note.func("caller")
        fail.enqueue()
    assert notes() == []
    testing.assert_not_enqueued(fail)


def test_nested_jobs_run_nested(place):
    with testing.eager():
        handle = nested.enqueue()
    assert handle.job().result == [nested.name]
    assert notes() == ["inner", "async inner", "outer"]
    assert djqueue.current._current.get() is None


def test_async_code_and_coroutines(place):
    @async_to_sync
    async def run() -> str:
        with testing.eager():
            await anote.aenqueue("one")
            handle = await anested.aenqueue()
            await djqueue.aenqueue(note.name, ["last"])
            with pytest.raises(Boom):
                await fail.aenqueue()
            return (await handle.ajob()).result

    assert run() == anested.name
    assert notes() == ["one", "inner", "async inner", "outer", "last", "fail 1"]


def test_on_commit_runs_at_the_commit(place, database):
    with testing.eager(), TestCase.captureOnCommitCallbacks(using=database, execute=True):
        with transaction.atomic(using=database):
            note.using(on_commit=True).enqueue("x")
            assert notes() == []
        if place == "committed":
            assert notes() == ["x"]
    assert notes() == ["x"]


def test_a_duplicate_and_a_paused_queue_do_not_run(place):
    note.using(dedup_key="k").enqueue("first")
    djqueue.Queue("paused").pause()
    with testing.eager():
        assert note.using(dedup_key="k").enqueue("second").status() == "pending"
        handle = note.using(queue="paused", delay=60).enqueue("paused")
    assert (handle.status(), handle.job().priority) == ("scheduled", 1000)
    assert notes() == []


def test_an_unknown_task_is_left_to_a_worker(place):
    with testing.eager():
        assert djqueue.enqueue("nobody.knows").status() == "pending"


def test_signals_have_the_priority_of_the_job(heard, place):  # noqa: F811
    with testing.eager():
        note.using(priority=7).enqueue("x")
    by_event = {event: extra["job"].priority for event, extra in heard}
    expected = {"queued": 7, "started": 7, "completed": 7}
    if place == "TestCase":
        del expected["queued"]
    assert by_event == expected


@pytest.mark.databases("sqlite")
def test_endless_nesting_is_an_error(database):
    with testing.eager(), pytest.raises(djqueue.DjqueueError, match="50 eager jobs are running inside each other"):
        for_ever.enqueue()


@pytest.mark.databases("sqlite")
def test_other_threads_are_eager_too(database):
    with testing.eager():
        assert in_thread(note.enqueue, "x").status() == "done"


@pytest.mark.databases("sqlite")
def test_as_a_decorator(database):
    switch = testing.eager()

    @switch
    def plain(text: str) -> djqueue.JobHandle:
        return note.enqueue(text)

    @switch
    async def coroutine(text: str) -> djqueue.JobHandle:
        return await note.aenqueue(text)

    assert plain("x").status() == "done"
    assert async_to_sync(coroutine)("y").status() == "done"
    assert note.enqueue("z").status() == "pending"
