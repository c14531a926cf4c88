"""PostgreSQL acknowledges a group of jobs by a statement of its own: all of them, or none."""

from __future__ import annotations

import random

import pytest
from django.db import connections, transaction
from django.db.models import Sum

import djqueue
from djqueue.core.records import Settled
from djqueue.lifecycle import settle
from djqueue.lifecycle.outcome import decide
from djqueue.models import DoneJob, Job, Throughput
from djqueue.sql import statements
from djqueue.states import Outcome
from tests.app.tasks import add
from tests.factories import DoneJobFactory
from tests.tools import rows

pytestmark = pytest.mark.databases("postgresql")


def claim_all(groups: int = 3, size: int = 5) -> list[djqueue.ClaimedJob]:
    """Claim jobs by several claims, whose ids are mixed."""
    handles = add.enqueue_many([djqueue.call(n, 1) for n in range(groups * size)])
    for handle in random.Random(7).sample(handles, len(handles)):
        djqueue.reschedule(handle.id, priority=random.Random(handle.id.int).randrange(100))
    return [job for _ in range(groups) for job in djqueue.Queue("default").claim(size)]


def test_the_jobs_of_several_claims_are_acknowledged_by_one_statement(database, django_assert_num_queries):
    items = [settle.ack(job, {"of": str(job.id)}) for job in claim_all()]
    random.Random(3).shuffle(items)
    with django_assert_num_queries(1, connection=connections[database]):
        assert settle.settle_many(items) == [Settled(Outcome.DONE, 1)] * len(items)
    assert not rows(Job).exists()
    assert {row.result["of"] for row in rows(DoneJob)} == {str(item.id) for item in items}
    assert all(row.result == {"of": str(row.id)} for row in rows(DoneJob))
    assert rows(Throughput).aggregate(done=Sum("done"))["done"] == len(items)


def test_jobs_with_and_without_results_keep_their_own(database):
    jobs = claim_all()
    items = [settle.ack(job, n if n % 2 else None) for n, job in enumerate(jobs)]
    settle.settle_many(items)
    expected = {job.id: n if n % 2 else None for n, job in enumerate(jobs)}
    assert {row.id: row.result for row in rows(DoneJob)} == expected


def test_a_stale_token_makes_the_whole_group_go_the_long_way(database):
    jobs = claim_all()
    lost = jobs[4]
    lost.release()
    [again] = djqueue.Queue("default").claim(1)
    assert again.id == lost.id
    items = [settle.ack(job) for job in jobs]
    assert not statements().ack(items)
    assert rows(Job).count() == len(jobs)  # nothing has changed
    assert not rows(Throughput).exists()
    outcomes = [answer.outcome for answer in settle.settle_many(items)]
    assert outcomes == [Outcome.LOST if job is lost else Outcome.DONE for job in jobs]
    assert rows(Throughput).aggregate(done=Sum("done"))["done"] == len(jobs) - 1


def test_a_token_counts_only_for_the_jobs_of_its_own_claim(database):
    """A job that this process held before, and holds again by another claim of the same group."""
    first, other = claim_all(1, 2)
    first.release()
    [again] = djqueue.Queue("default").claim(1)
    assert again.id == first.id
    [later] = (add.enqueue(1, 2), djqueue.Queue("default").claim(1))[1]
    assert not statements().ack([settle.ack(first), settle.ack(other), settle.ack(later)])
    assert statements().ack([settle.ack(again), settle.ack(other), settle.ack(later)])


def test_a_locked_row_is_not_waited_for(database):
    jobs = claim_all()
    items = [settle.ack(job) for job in jobs]
    connection = connections.create_connection(database)
    try:
        connection.set_autocommit(False)
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM djqueue_job WHERE id = %s FOR UPDATE", [jobs[7].id])
        outcomes = [answer.outcome for answer in settle.settle_many(items)]
        connection.rollback()
    finally:
        connection.close()
    assert outcomes == [Outcome.LOCKED if job is jobs[7] else Outcome.DONE for job in jobs]


def test_without_retention_nothing_is_kept_but_the_counts(database, configure):
    configure(KEEP_DONE=0)
    items = [settle.ack(job, "result") for job in claim_all()]
    assert statements().ack(items)
    assert not rows(Job).exists()
    assert not rows(DoneJob).exists()
    assert rows(Throughput).aggregate(done=Sum("done"))["done"] == len(items)


def test_a_job_that_ends_again_replaces_its_row(database):
    jobs = claim_all()
    DoneJobFactory(id=jobs[3].id, result="old")
    items = [settle.ack(job, "new") for job in jobs]
    assert not statements().ack(items)
    assert [row.result for row in rows(DoneJob)] == ["old"]  # nothing has changed
    assert settle.settle_many(items) == [Settled(Outcome.DONE, 1)] * len(items)
    assert {row.result for row in rows(DoneJob)} == {"new"}


def test_a_group_goes_the_long_way_in_the_transaction_of_its_caller(database):
    """There, an error of the statement, as for a job that has a row already, would end the transaction."""
    jobs = claim_all()
    DoneJobFactory(id=jobs[3].id, result="old")
    items = [settle.ack(job) for job in jobs]
    with transaction.atomic(using=database):
        assert settle.settle_many(items) == [Settled(Outcome.DONE, 1)] * len(items)
        transaction.set_rollback(True, using=database)
    assert rows(Job).count() == len(items)
    assert rows(DoneJob).count() == 1
    assert not rows(Throughput).exists()


def test_the_counts_are_those_of_single_settlements(database):
    """The buckets and sums that the statement for groups writes are those that the general one writes."""
    counts = []
    for together in (True, False):
        items = [settle.ack(job) for job in claim_all()]
        for number, item in enumerate(items):
            item.wait, item.run = 0.003 * number**3, 0.001 * number**4
        if together:
            assert statements().ack(items)
        else:
            for item in items:
                statements().settle([decide(item)])
        found = rows(Throughput).values_list("wait_bucket", "run_bucket")
        sums = found.annotate(n=Sum("done"), wait=Sum("wait_sum"), run=Sum("run_sum")).order_by(
            "wait_bucket", "run_bucket"
        )
        counts.append([(w, r, n, round(wait, 6), round(run, 6)) for w, r, n, wait, run in sums])
        rows(Throughput).delete()
    assert counts[0] == counts[1]
    assert len(counts[0]) > 3
