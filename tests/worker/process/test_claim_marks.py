"""Claims beside a transaction that stays open: they begin where the last one ended."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from django.db import connections, transaction

import djqueue
from djqueue import call
from djqueue.core.records import Mark
from djqueue.lifecycle import claim as claiming
from djqueue.lifecycle import settle
from djqueue.sql.postgresql import claim
from djqueue.worker.process.claim_marks import IN_A_ROW, SLOW, TRIES, ClaimMarks
from tests.app.tasks import add
from tests.sql.test_plans import explain
from tests.tools import claim_one, claim_request

pytestmark = pytest.mark.databases("postgresql")


@contextmanager
def old_snapshot():
    """A transaction that sees the database as it is now, and keeps everything that it sees."""
    with transaction.atomic(using="postgresql_repeatable"), connections["postgresql_repeatable"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM djqueue_job")
        yield
    connections["postgresql_repeatable"].close()


def pages_read(mark: Mark | None) -> int:
    """Pages that a claim of one job touches."""
    request = claim_request({"default": 1}, marks={"default": mark} if mark else {})
    return explain(claim.CLAIM, claim.parameters(request))[0]


def run_many(count: int) -> None:
    add.enqueue_many([call(n) for n in range(count)])
    while jobs := djqueue.Queue("default").claim(500):
        settle.settle_many([settle.ack(job) for job in jobs])


def mark_of(job) -> Mark:
    return Mark(job.priority, job.enqueued_at, job.id)


def test_a_claim_from_a_mark_does_not_walk_over_what_was_claimed_before(database):
    with connections[database].cursor() as cursor:
        cursor.execute("TRUNCATE djqueue_job")  # and the index entries that other tests have left
    with old_snapshot():
        run_many(3000)
        last = add.enqueue(1)
        mark = mark_of(claim_one())
        add.enqueue_many([call(n) for n in range(2)])
        assert mark.id == last.id
        without, beyond = pages_read(None), pages_read(mark)
    assert without > 100
    assert beyond < 40


def test_a_job_of_a_higher_priority_is_found_before_the_mark(database):
    add.enqueue(1)
    mark = mark_of(claim_one())
    add.enqueue(2)
    urgent = add.using(priority=djqueue.HIGH).enqueue(3)
    [job] = claiming.claim({"default": 1}, marks={"default": mark})
    assert job.id == urgent.id


def test_a_job_at_an_earlier_place_is_found_without_the_mark(database):
    early = add.enqueue(1)
    first = claim_one()
    add.enqueue(2)
    mark = mark_of(claim_one())
    first.release()
    assert claiming.claim({"default": 1}, marks={"default": mark}) == []
    assert claim_one().id == early.id


def test_marks_are_used_while_they_help(database):
    add.enqueue(1)
    job = claim_one()
    low = ClaimMarks()
    low.learn(["default"], {}, [job], SLOW / 2)
    assert (low.marks(["default"]), low.queues()) == ({}, [])
    for _ in range(IN_A_ROW):
        assert low.marks(["default"]) == {}, "one alone may have had to connect"
        low.learn(["default"], {}, [job], SLOW * 3)
    marks = low.marks(["default", "other"])
    assert marks == {"default": mark_of(job)}
    assert low.queues() == [], "not known yet to be the cause"
    low.learn(["default"], marks, [job], SLOW)
    assert low.queues() == ["default"]
    low.until = 0.0
    assert low.marks(["default"]) == {}, "forgotten"
    assert low.queues() == ["default"], "but it is still slow"
    low.learn(["default"], {}, [], SLOW / 2)
    assert low.queues() == [], "the transaction has ended"


def test_marks_that_do_not_help_are_given_up(database):
    add.enqueue(1)
    job = claim_one()
    low = ClaimMarks()
    for _ in range(IN_A_ROW):
        low.learn(["default"], {}, [job], SLOW * 3)
    for _ in range(TRIES):
        low.learn(["default"], low.marks(["default"]), [job], SLOW * 2.5)
    assert low.marks(["default"]) == {}
    for _ in range(IN_A_ROW):
        low.learn(["default"], {}, [job], SLOW * 3)
    assert low.marks(["default"]) == {}, "not at once again"
