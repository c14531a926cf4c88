from __future__ import annotations

import threading
from uuid import uuid4

import pytest
from django.db import transaction

import djqueue
from djqueue import CancelOutcome
from djqueue.lifecycle import cancel as cancelling
from djqueue.models import DoneJob, Job, Throughput
from tests.app.tasks import add
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory
from tests.tools import claim_one, in_thread, in_threads, live, places, rows, statements_sent


@pytest.mark.parametrize("delay", [0, 60])
def test_a_waiting_job_is_removed_and_kept_as_cancelled(database, delay):
    handle = add.using(delay=delay, headers={"h": 1}).enqueue(1, b=2)
    outcome = handle.cancel()
    assert outcome is CancelOutcome.REMOVED
    assert outcome.acted
    assert places(handle.id) == ["DoneJob"]
    record = handle.job()
    assert (record.status, record.args, record.kwargs, record.headers) == ("cancelled", [1], {"b": 2}, {"h": 1})
    assert record.completed_at is not None
    assert sum(rows(Throughput).values_list("cancelled", flat=True)) == 1
    assert djqueue.stats("default").done == 0


def test_a_cancel_of_a_claimed_job_is_a_request_also_when_repeated(database):
    add.enqueue(1)
    job = claim_one()
    assert djqueue.cancel(job.id) is CancelOutcome.REQUESTED
    assert djqueue.cancel(str(job.id)) is CancelOutcome.REQUESTED
    assert djqueue.get_job(job.id).cancel_requested is True
    job.renew(30)
    assert job.cancel_requested is True


def test_a_task_that_ignores_the_request_runs_to_its_end(database):
    add.enqueue(1)
    job = claim_one()
    djqueue.cancel(job.id)
    job.ack("done all the same")
    record = djqueue.get_job(job.id)
    assert (record.status, record.result) == ("done", "done all the same")


@pytest.mark.parametrize("back", ["reap", "release", "snooze"])
def test_the_request_survives_a_reap_a_release_and_a_snooze(database, back):
    add.enqueue(1)
    job = claim_one(lease=0)
    djqueue.cancel(job.id)
    {"reap": djqueue.maintenance.reap, "release": job.release, "snooze": lambda: job.snooze(0)}[back]()
    assert claim_one().cancel_requested is True


@pytest.mark.parametrize("make", [DoneJobFactory, DeadJobFactory])
def test_a_job_that_ended_is_not_found(database, make):
    row = make()
    outcome = djqueue.cancel(row.pk)
    assert outcome is CancelOutcome.NOT_FOUND
    assert not outcome.acted


def test_an_unknown_job_is_not_found(database):
    assert djqueue.cancel(uuid4()) is djqueue.cancel("123") is CancelOutcome.NOT_FOUND


def test_without_retention_a_cancelled_job_leaves_nothing(configure):
    configure(KEEP_DONE=0, QUEUES={"kept": {"keep_done": 9}})
    gone, kept = add.enqueue(1), add.using(queue="kept").enqueue(1)
    assert gone.cancel() is kept.cancel() is CancelOutcome.REMOVED
    assert [row.pk for row in rows(DoneJob).all()] == [kept.id]
    configure(QUEUES={"gone": {"keep_done": 0}})
    add.using(queue="gone").enqueue(1).cancel()
    assert [row.pk for row in rows(DoneJob).all()] == [kept.id]


def test_many_are_cancelled_at_once(database):
    waiting = [add.enqueue(n).id for n in range(3)]
    claimed = JobFactory(claimed=True).pk
    ended = DoneJobFactory().pk
    with statements_sent() as sent:
        done = {item.id: item.outcome for item in cancelling.cancel_many([*waiting, claimed, ended])}
    assert done == dict.fromkeys(waiting, CancelOutcome.REMOVED) | {claimed: CancelOutcome.REQUESTED}
    assert len(sent) <= (1 if database.startswith("postgresql") else 5)


def test_a_cancel_rolls_back(database):
    handle = add.enqueue(1)
    with transaction.atomic(using=database):
        assert handle.cancel() is CancelOutcome.REMOVED
        transaction.set_rollback(True, using=database)
    assert handle.status() == "pending"


@pytest.mark.databases("postgresql", "postgresql_pool", "postgresql_bound", "postgresql_pgbouncer", "mysql")
def test_a_cancel_during_an_uncommitted_claim_becomes_a_request(database):
    """The state is looked at under the lock: what was pending a moment ago may be claimed now."""
    handle = add.enqueue(1)
    outcomes: list[CancelOutcome] = []
    with transaction.atomic(using=database):
        claim_one()
        thread = threading.Thread(target=lambda: outcomes.append(in_thread(handle.cancel)))
        thread.start()
        thread.join(0.2)
        assert outcomes == []
    thread.join(30)
    assert outcomes == [CancelOutcome.REQUESTED]
    assert live(handle.id).cancel_requested is True


def test_cancel_races_with_claim_and_settle(database):
    """Invariant: a REMOVED job was never claimed, a REQUESTED job is claimed, and each job ends once."""
    for _ in range(10):
        handle = add.enqueue(1)

        def act(number: int, handle=handle) -> object:
            if number == 0:
                return handle.cancel()
            jobs = djqueue.Queue("default").claim()
            for job in jobs:
                job.ack()
            return len(jobs)

        outcome, ran = in_threads(2, act)
        if outcome is CancelOutcome.REMOVED:
            assert (ran, handle.status()) == (0, "cancelled")
        elif ran:
            assert handle.status() == "done"
        assert len(places(handle.id)) == 1
        rows(Job).all().delete()
