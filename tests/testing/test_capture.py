"""`capture_jobs`: what a block enqueues, without a commit."""

from __future__ import annotations

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import TestCase

import djqueue
from djqueue import schedules, testing
from djqueue.lifecycle import announce
from tests.testing.tasks import chain, fail, note, typed
from tests.tools import in_thread
from tests.worker.process.test_worker import PLAIN

pytestmark = pytest.mark.databases(*PLAIN)


def texts(jobs):
    return [record.args[0] for record in jobs]


def test_every_form_of_enqueue_is_captured_in_order(place):
    with testing.capture_jobs() as jobs:
        first = note.using(queue="email", priority=5, headers={"a": 1}).enqueue("task")
        djqueue.enqueue(note.name, ["name"])
        note.enqueue_many([note.call("many 1"), djqueue.call("many 2")])
        djqueue.enqueue_many([note.call("several")])
        schedules.create("s", task=note, every=60, args=["schedule"])
        schedules.run_now("s")
        async_to_sync(note.aenqueue)("async")
        assert len(jobs) == 7
    note.enqueue("after the block")
    assert texts(jobs) == ["task", "name", "many 1", "many 2", "several", "schedule", "async"]
    record = jobs[0]
    assert isinstance(record, djqueue.JobRecord)
    assert (record.id, record.task, record.queue, record.priority) == (first.id, note.name, "email", 5)
    assert (record.headers, record.status, jobs[5].schedule) == ({"a": 1}, "pending", "s")


def test_duplicates_and_requeued_jobs_are_not_new(place):
    dead = fail.using(max_attempts=1).enqueue()
    done = note.enqueue("done")
    testing.run_pending(raise_errors=False)
    with testing.capture_jobs() as jobs:
        note.using(dedup_key="k").enqueue("first")
        note.using(dedup_key="k").enqueue("second")
        djqueue.requeue(dead.id)
        djqueue.enqueue_again(done.id)
    assert texts(jobs) == ["first", "done"]


def test_blocks_may_be_nested_and_capture_other_threads(database):
    with testing.capture_jobs() as outer, testing.capture_jobs() as same:
        note.enqueue("one")
        with testing.capture_jobs() as inner:
            in_thread(note.enqueue, "two")
    assert (texts(outer), texts(same), texts(inner)) == (["one", "two"], ["one", "two"], ["two"])
    assert announce.enqueue_observers == []


def test_jobs_of_jobs_are_captured(place):
    with testing.capture_jobs() as jobs:
        chain.enqueue(2)
        testing.run_pending()
    assert texts(jobs) == [2, 1, 0]


def test_jobs_on_commit_are_captured_once_they_are_written(database):
    with testing.capture_jobs() as jobs:
        with transaction.atomic(using=database):
            note.using(on_commit=True).enqueue("x")
            assert jobs == []
        assert texts(jobs) == ["x"]


def test_on_commit_inside_a_testcase(place, database):
    with testing.capture_jobs() as jobs:
        with TestCase.captureOnCommitCallbacks(using=database, execute=True), transaction.atomic(using=database):
            note.using(on_commit=True).enqueue("x")
            typed.using(on_commit=True).enqueue_many([djqueue.call(timedelta(1))])
        assert texts(jobs) == ["x", timedelta(1)]


@pytest.mark.databases("sqlite")
def test_an_error_in_the_block_ends_the_capture(database):
    with pytest.raises(ZeroDivisionError), testing.capture_jobs():
        1 / 0  # noqa: B018
    assert announce.enqueue_observers == []
