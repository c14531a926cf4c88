"""The kit in the test cases of Django, on every database. The other files here have tests with pytest-django."""

from __future__ import annotations

import unittest
from typing import Any

import pytest
from django.db import connections, transaction
from django.test import SimpleTestCase, TestCase, TransactionTestCase

import djqueue
from djqueue import testing
from djqueue.models import Job
from tests.testing.tasks import Boom, anote, fail, note, notes
from tests.tools import rows
from tests.worker.process.test_worker import PLAIN

pytestmark = pytest.mark.databases(*PLAIN)


class Kit:
    """The tests; run by the classes below, which pytest does not collect."""

    def test_run_pending(self) -> None:
        assert rows(Job).count() == 0
        with testing.capture_jobs() as jobs:
            note.enqueue("one")
            anote.enqueue("two")
        testing.assert_enqueued(note, args=["one"], times=1)
        testing.assert_not_enqueued(fail)
        ran = testing.run_pending()
        assert [record.id for record in ran] == [record.id for record in jobs]
        assert notes() == ["one", "two"]

    def test_advance(self) -> None:
        assert rows(Job).count() == 0
        note.using(delay=60).enqueue("later")
        fail.enqueue()
        ran = testing.advance(3600, raise_errors=False)
        assert [record.status for record in ran] == ["scheduled", "done", "scheduled", "dead"]

    def test_eager(self) -> None:
        assert rows(Job).count() == 0
        with testing.eager():
            assert note.enqueue("one").status() == "done"
            with pytest.raises(Boom):
                fail.enqueue()

    def test_on_commit(self) -> None:
        assert rows(Job).count() == 0
        using = self.alias
        with (
            testing.capture_jobs() as jobs,
            TestCase.captureOnCommitCallbacks(using=using, execute=True),
            transaction.atomic(using=using),
        ):
            note.using(on_commit=True).enqueue("committed")
            assert jobs == []
        assert len(jobs) == 1
        assert [record.result for record in testing.run_pending()] == ["committed"]

    async def test_async(self) -> None:
        with testing.capture_jobs() as jobs:
            await note.aenqueue("one")
            await anote.using(delay=60).aenqueue("two")
        assert len(jobs) == 2
        await testing.aassert_enqueued(note, args=["one"])
        assert [record.result for record in await testing.arun_pending()] == ["one"]
        assert [record.result for record in await testing.aadvance(60)] == ["two"]
        with testing.eager():
            assert await (await anote.aenqueue("three")).astatus() == djqueue.Status.DONE


TESTS = [name for name in vars(Kit) if name.startswith("test_")]


@pytest.mark.parametrize("base", [TestCase, TransactionTestCase])
def test_in_the_test_cases_of_django(database, base: type[SimpleTestCase], monkeypatch):
    monkeypatch.setattr("djqueue.schedules.in_code.declarations", dict)
    body: dict[str, Any] = {"databases": {database}, "alias": database, "available_apps": ["djqueue"]}
    case: Any = type("Case", (Kit, base), body)
    result = unittest.TestResult()
    unittest.TestSuite(case(name) for name in TESTS).run(result)
    assert not result.errors + result.failures, result.errors + result.failures
    assert result.testsRun == len(TESTS) == 5
    assert not connections[database].in_atomic_block
    assert rows(Job).count() == 0


def test_a_worker_in_threads(database):
    with testing.worker(threads=2):
        handles = [note.using(queue="one").enqueue("x"), anote.using(delay=0.1, queue="other").enqueue("y")]
        assert [handle.wait(20).record.status for handle in handles] == ["done", "done"]
    with testing.worker():
        assert note.enqueue("again").wait(20).completed


@pytest.mark.databases("postgresql")
def test_a_worker_in_threads_of_one_queue(database):
    with testing.worker(queues=["one"], threads=1):
        other, one = note.using(queue="other").enqueue("x"), note.using(queue="one").enqueue("y")
        assert one.wait(20).completed
    assert other.status() == "pending"
    with (
        pytest.raises(djqueue.InvalidOption, match="queues must be a list of names, got 'one'"),
        testing.worker(queues="one"),
    ):
        pass


def test_a_worker_in_threads_is_refused_in_a_transaction(database):
    with (
        transaction.atomic(using=database),
        pytest.raises(djqueue.DjqueueError, match="Use TransactionTestCase or transactional_db"),
        testing.worker(),
    ):
        pass
