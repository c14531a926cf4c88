"""`run_pending`: on every database, committed and inside the transaction of a TestCase."""

from __future__ import annotations

import asyncio
import traceback

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections
from django.db.transaction import TransactionManagementError

import djqueue
from djqueue import kv, testing
from djqueue.models import Job
from tests.test_signals import heard  # noqa: F401 - a fixture
from tests.testing.tasks import (
    Boom,
    anote,
    break_transaction,
    catch_database_error,
    chain,
    delete_itself,
    fail,
    for_ever,
    note,
    notes,
    on_commit,
    report_progress,
    steer,
    too_slow,
)
from tests.tools import rows
from tests.worker.process.test_worker import PLAIN

pytestmark = [pytest.mark.databases(*PLAIN), pytest.mark.usefixtures("place")]


def test_due_jobs_run_in_claim_order_on_this_connection(database):
    note.enqueue("second")
    anote.using(queue="other").enqueue("third")
    note.using(priority=djqueue.HIGH).enqueue("first")
    note.using(delay=60).enqueue("not due")
    before = connections[database].connection
    ran = testing.run_pending()
    assert [record.result for record in ran] == notes() == ["first", "second", "third"]
    assert {record.status for record in ran} == {"done"}
    assert connections[database].connection is before
    assert testing.run_pending() == []


def test_jobs_of_jobs_run_too():
    chain.enqueue(3)
    assert len(testing.run_pending()) == 4
    assert notes() == ["3", "2", "1", "0"]


def test_an_endless_chain_is_an_error():
    chain.enqueue(6)
    assert len(testing.run_pending(limit=7)) == 7
    for_ever.enqueue()
    with pytest.raises(
        djqueue.DjqueueError, match=r"More than 7 jobs have run, the last one of task .*for_ever.*higher limit"
    ):
        testing.run_pending(limit=7)


def test_only_the_given_queue_and_no_paused_one():
    note.using(queue="a").enqueue("a")
    note.using(queue="b").enqueue("b")
    djqueue.Queue("b").pause()
    assert [record.queue for record in testing.run_pending(queue="a")] == ["a"]
    assert testing.run_pending() == []
    djqueue.Queue("b").resume()
    assert [record.queue for record in testing.run_pending()] == ["b"]


def test_a_failing_task_raises_its_exception_with_its_traceback():
    handle = fail.enqueue("what happened")
    note.enqueue("later")
    with pytest.raises(Boom, match="what happened") as raised:
        testing.run_pending()
    assert "raise Boom(text)" in "".join(traceback.format_tb(raised.value.__traceback__))
    job = handle.job()
    assert (job.status, job.attempts, job.last_error) == ("scheduled", 1, "what happened")
    assert rows(Job).filter(status="claimed").count() == 0
    assert [record.result for record in testing.run_pending()] == ["later"]


def test_without_errors_it_is_retried_or_dies_as_in_production():
    retried, dead = fail.enqueue(), fail.using(max_attempts=1).enqueue()
    ran = testing.run_pending(raise_errors=False)
    assert [(record.id, record.status) for record in ran] == [(retried.id, "scheduled"), (dead.id, "dead")]
    assert 59 < (ran[0].run_at - ran[0].last_attempted_at).total_seconds() < 90


@pytest.mark.parametrize(("how", "status", "attempts"), [("snooze", "scheduled", 0), ("retry", "scheduled", 1)])
def test_a_task_that_asks_for_another_run_does_not_fail(how, status, attempts):
    steer.enqueue(how)
    [record] = testing.run_pending()
    assert (record.status, record.attempts) == (status, attempts)


def test_the_other_ways_to_end():
    steer.enqueue("cancelled")
    assert [record.status for record in testing.run_pending()] == ["cancelled"]
    dead = steer.enqueue("permanent")
    with pytest.raises(djqueue.PermanentFailure, match="never"):
        testing.run_pending()
    assert dead.status() == "dead"
    last = steer.using(max_attempts=1).enqueue("retry")
    with pytest.raises(djqueue.Retry):
        testing.run_pending()
    assert last.status() == "dead"


def test_an_unknown_task_is_a_clear_error():
    handle = djqueue.enqueue("tests.testing.tasks.nots")
    with pytest.raises(djqueue.DjqueueError, match=r"'tests.testing.tasks.nots'.*Similar names: .*note") as raised:
        testing.run_pending()
    assert "INSTALLED_APPS" in str(raised.value)
    assert handle.status() == "scheduled"
    djqueue.enqueue("nobody.knows")
    assert [record.status for record in testing.run_pending(raise_errors=False)] == ["scheduled"]


def test_signals_and_on_commit_functions_of_jobs_are_called(heard, place):  # noqa: F811
    on_commit.enqueue()
    queued = ["queued"] if place == "committed" else []  # a TestCase never commits what it enqueues itself
    testing.run_pending()
    assert notes() == ["before the commit", "committed"]
    events = [event for event, _ in heard]
    assert events == [*queued, "started", "queued", "completed", "started", "completed"]


def test_a_broken_transaction_is_rolled_back_to_before_the_job(place):
    kv.set("kept", 1)
    handle = break_transaction.enqueue()
    testing.run_pending(raise_errors=False)
    assert (handle.status(), kv.get("kept")) == ("dead", 1)
    assert notes() == ([] if place == "TestCase" else ["lost"])


def test_a_caught_error_that_breaks_the_transaction_of_the_test_is_named(place):
    handle = catch_database_error.enqueue()
    if place == "TestCase":
        with pytest.raises(TransactionManagementError, match="catch_database_error caught"):
            testing.run_pending()
        assert (handle.status(), notes()) == ("pending", [])
    else:
        testing.run_pending()
        assert handle.status() == "done"


def test_progress_timeouts_and_lost_jobs():
    report_progress.enqueue()
    [record] = testing.run_pending()
    assert record.progress == {"done": 3, "total": 4, "message": "nearly"}
    too_slow.enqueue()
    with pytest.raises(djqueue.TaskTimeout):
        testing.run_pending()
    delete_itself.enqueue()
    with pytest.raises(djqueue.LeaseLost, match="was taken from its task"):
        testing.run_pending()
    delete_itself.enqueue()
    assert testing.run_pending(raise_errors=False) == []


def test_jobs_that_are_not_kept_are_returned(configure):
    configure(KEEP_DONE=0)
    handle = note.enqueue("gone")
    [record] = testing.run_pending()
    assert (record.id, record.status, record.result, handle.job()) == (handle.id, "done", "gone", None)


def test_a_keyboard_interrupt_ends_the_run(monkeypatch):
    def interrupt(text: str) -> None:
        raise KeyboardInterrupt

    handle = note.enqueue("x")
    monkeypatch.setattr(note, "func", interrupt)
    with pytest.raises(KeyboardInterrupt):
        testing.run_pending(raise_errors=False)
    assert handle.status() == "scheduled"


@pytest.mark.parametrize("place", ["committed"], indirect=True)
def test_from_an_event_loop_that_is_not_djangos():
    """Its thread for synchronous code is not the one of the test."""

    async def run() -> list[djqueue.JobRecord]:
        try:
            await anote.aenqueue("one")
            await note.aenqueue("two")
            return await testing.arun_pending()
        finally:
            await sync_to_async(connections.close_all)()

    assert [record.result for record in asyncio.run(run())] == notes() == ["one", "two"]


def test_from_an_event_loop():
    @async_to_sync
    async def run() -> list[djqueue.JobRecord]:
        await anote.aenqueue("one")
        await note.aenqueue("two")
        with pytest.raises(SynchronousOnlyOperation, match=r"await djqueue.testing.arun_pending\(...\)"):
            testing.run_pending()
        return await testing.arun_pending()

    assert [record.result for record in run()] == notes() == ["one", "two"]
