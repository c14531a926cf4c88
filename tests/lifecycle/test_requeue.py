from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import transaction

import djqueue
from djqueue.models import DeadJob, Job
from tests.app.tasks import add, eager_retry
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory
from tests.tools import claim_one, database_now, in_threads, places, rows, statements_sent


def kill(handle) -> None:
    claim_one().dead_letter("first life")
    assert handle.status() == "dead"


def test_a_requeued_job_is_pending_under_its_id(database):
    handle = add.using(
        headers={"h": 1}, priority=5, max_attempts=2, retry=djqueue.Fixed(9), timeout=8, lease=7, dedup_key="k"
    ).enqueue(1, b=2)
    before = handle.job()
    rows(Job).filter(pk=handle.id).update(cancel_requested=True)
    kill(handle)
    returned = djqueue.requeue(handle.id)
    assert places(handle.id) == ["Job"]
    record = handle.job()
    assert returned == record
    assert (record.status, record.attempts, record.worker_ids, record.last_error) == ("pending", 0, [], "")
    assert record.failed_at is record.started_at is record.last_attempted_at is record.claimed_at is None
    assert (record.cancel_requested, record.dedup_key) == (False, None)
    assert (record.args, record.kwargs, record.headers) == ([1], {"b": 2}, {"h": 1})
    assert (record.priority, record.max_attempts, record.enqueued_at) == (5, 2, before.enqueued_at)
    row = rows(Job).get()
    assert (row.timeout, row.lease, row.retry["kind"]) == (8, 7, "fixed")
    assert claim_one().attempt == 1


def test_a_requeued_job_does_not_hold_its_former_dedup_key(database):
    """Neither a new job with the key nor the requeued job is refused."""
    task = add.using(dedup_key="k", dedup_until="done")
    first = task.enqueue(1)
    kill(first)
    djqueue.requeue(first.id)
    second = task.enqueue(2)
    assert second.created
    djqueue.cancel(first.id)
    kill(second)
    third = task.enqueue(3)
    djqueue.requeue(second.id)
    assert (third.created, task.enqueue(4).id) == (True, third.id)
    assert second.status() == third.status() == "pending"


def test_errors_are_kept_and_marked(database):
    handle = eager_retry.using(max_attempts=2).enqueue()
    claim_one().nack("one\n{two}")
    claim_one().nack("two")
    djqueue.requeue(handle.id)
    claim_one().nack("three", delay=0)
    claim_one().nack("four")
    assert handle.status() == "dead"
    errors = handle.job().errors
    assert [error["message"] for error in errors] == ["one\n{two}", "two", "three", "four"]
    assert [error.get("before_requeue", False) for error in errors] == [True, True, False, False]
    djqueue.requeue(handle.id)
    assert [error["before_requeue"] for error in handle.job().errors] == [True] * 4
    text = rows(Job).values_list("errors", flat=True)
    assert len(text[0]) == 4


def test_requeue_with_other_arguments_and_another_time(database):
    handle = add.enqueue(1, b=2)
    kill(handle)
    when = datetime(2100, 1, 1, tzinfo=UTC)
    djqueue.requeue(str(handle.id), args=[7], kwargs={}, run_at=when)
    record = handle.job()
    assert (record.status, record.run_at, record.args, record.kwargs) == ("scheduled", when, [7], {})


def test_a_time_in_the_past_is_now(database):
    handle = add.enqueue(1)
    kill(handle)
    assert djqueue.requeue(handle.id, run_at=datetime(2001, 1, 1, tzinfo=UTC)).status == "pending"


def test_invalid_input_changes_nothing(database):
    handle = add.enqueue(1)
    kill(handle)
    with pytest.raises(djqueue.InvalidPayload, match=r"tests.app.tasks.add: args\[0\] \(a\) is of type object"):
        djqueue.requeue(handle.id, args=[object()])
    with pytest.raises(djqueue.InvalidOption, match="run_at must be an aware datetime"):
        djqueue.requeue(handle.id, run_at=datetime(2026, 1, 1))
    assert handle.status() == "dead"


@pytest.mark.parametrize("make", [JobFactory, DoneJobFactory, lambda: JobFactory(claimed=True)])
def test_only_dead_jobs_can_be_requeued(database, make):
    row = make()
    with pytest.raises(djqueue.NotDead, match=str(row.pk)):
        djqueue.requeue(row.pk)
    with pytest.raises(djqueue.NotDead):
        djqueue.requeue(uuid4())


def test_a_holder_from_before_the_requeue_cannot_settle_the_job(database):
    handle = add.enqueue(1)
    first = claim_one()
    first.dead_letter("x")
    djqueue.requeue(handle.id)
    second = claim_one()
    assert second.attempt == first.attempt
    for act in (first.ack, first.release, lambda: first.nack("late")):
        with pytest.raises(djqueue.LeaseLost):
            act()
    second.ack()
    assert handle.status() == "done"


def test_a_requeue_rolls_back(database):
    row = DeadJobFactory()
    with transaction.atomic(using=database):
        djqueue.requeue(row.pk)
        transaction.set_rollback(True, using=database)
    assert places(row.pk) == ["DeadJob"]


def test_two_requeues_race_and_one_wins(database):
    for _ in range(5):
        row = DeadJobFactory()

        def attempt(number: int, row=row) -> int:
            try:
                djqueue.requeue(row.pk)
            except djqueue.NotDead:
                return 0
            return 1

        assert sum(in_threads(3, attempt)) == 1
        assert places(row.pk) == ["Job"]


def test_a_dead_job_whose_id_is_live_again_is_not_requeued(database):
    row = DeadJobFactory()
    JobFactory(id=row.pk)
    with pytest.raises(djqueue.NotDead):
        djqueue.requeue(row.pk)
    assert rows(DeadJob).filter(pk=row.pk).exists()


def test_requeue_is_one_statement_on_postgresql(database):
    row = DeadJobFactory()
    with statements_sent() as sent:
        djqueue.requeue(row.pk)
    assert len(sent) <= (1 if database.startswith("postgresql") else 5)


def test_reschedule_changes_time_and_priority(database):
    handle = add.using(delay=3600).enqueue(1)
    assert djqueue.reschedule(handle.id, priority=3) is True
    assert (handle.job().priority, handle.status()) == (3, "scheduled")
    soon = database_now() + timedelta(seconds=100)
    assert djqueue.reschedule(str(handle.id), run_at=soon) is True
    assert (handle.job().run_at, handle.job().priority) == (soon, 3)
    assert djqueue.reschedule(handle.id, run_at=datetime(2001, 1, 1, tzinfo=UTC), priority=4) is True
    assert handle.status() == "pending"
    assert claim_one().id == handle.id


def test_reschedule_postpones_a_pending_job(database):
    handle = add.enqueue(1)
    assert djqueue.reschedule(handle.id, run_at=datetime(2100, 1, 1, tzinfo=UTC))
    assert djqueue.Queue("default").claim() == []


def test_reschedule_does_not_change_jobs_that_are_not_waiting(database):
    claimed = JobFactory(claimed=True)
    for job_id in (claimed.pk, DoneJobFactory().pk, DeadJobFactory().pk, uuid4()):
        assert djqueue.reschedule(job_id, priority=1) is False
    assert djqueue.get_job(claimed.pk).priority == 1000


def test_reschedule_refuses_bad_input(database):
    handle = add.enqueue(1)
    for options, message in [
        ({}, r"reschedule\(\) requires run_at, priority or both"),
        ({"run_at": datetime(2026, 1, 1)}, "run_at must be an aware datetime"),
        ({"priority": "high"}, "priority must be a whole number"),
    ]:
        with pytest.raises(djqueue.InvalidOption, match=message):
            djqueue.reschedule(handle.id, **options)


def test_handles_and_records_are_accepted_as_ids(database):
    handle = add.enqueue(1)
    assert djqueue.get_job(handle) == djqueue.get_job(handle.job()) == handle.job()
    job = claim_one()
    job.dead_letter("x")
    assert djqueue.requeue(handle).id == handle.id
    assert djqueue.cancel(handle.job()) is djqueue.CancelOutcome.REMOVED
    assert djqueue.wait(handle, 0).completed


def test_a_malformed_id_matches_no_job(database):
    with pytest.raises(djqueue.NotDead):
        djqueue.requeue("123")
    assert djqueue.reschedule("123", priority=1) is False


@pytest.mark.parametrize(("args", "kwargs"), [("abc", None), (None, "abc"), (5, None), (None, [1])])
def test_arguments_of_the_wrong_type_are_refused(database, args, kwargs):
    row = DeadJobFactory()
    with pytest.raises(djqueue.InvalidOption, match="must be a"):
        djqueue.requeue(row.pk, args=args, kwargs=kwargs)
    assert places(row.pk) == ["DeadJob"]
