from __future__ import annotations

import pytest
from django.db import transaction

import djqueue
from djqueue.lifecycle import claim as claiming
from djqueue.lifecycle import reap as reaping
from djqueue.lifecycle.recover import blame
from djqueue.models import Job, Throughput
from djqueue.sql import statements
from djqueue.states import Outcome, Verdict
from tests.app.tasks import add, fragile, steady
from tests.factories import JobFactory
from tests.tools import WITH_ROW_LOCKS, claim_one, in_thread, in_threads, live, places, rows


def test_a_job_whose_lease_ran_out_is_pending_at_once(database):
    handle = steady.enqueue()
    job = claim_one(lease=0)
    assert djqueue.maintenance.reap() == 1
    record = handle.job()
    assert (record.status, record.attempts, record.last_error) == ("pending", 1, "lease expired")
    assert (record.errors[0]["message"], record.errors[0]["worker"]) == ("lease expired", job.worker)
    assert record.worker_ids == [job.worker]
    assert record.failed_at is not None
    assert claim_one().attempt == 2


def test_a_reap_at_the_limit_is_death(database):
    handle = add.using(max_attempts=1).enqueue(1)
    claim_one(lease=0)
    assert djqueue.maintenance.reap() == 1
    record = handle.job()
    assert (record.status, record.last_error, record.attempts) == ("dead", "lease expired", 1)
    [counted] = rows(Throughput).all()
    assert (counted.failed, counted.dead, counted.done) == (1, 1, 0)


def test_live_leases_and_settled_jobs_are_left_alone(database):
    add.enqueue(1)
    job = claim_one(lease=30)
    add.enqueue(2)
    claim_one(lease=0).ack()
    JobFactory(scheduled=True)
    assert djqueue.maintenance.reap() == 0
    job.ack()


def test_a_renewed_lease_is_left_alone(database):
    add.enqueue(1)
    job = claim_one(lease=0)
    job.renew(30)
    assert djqueue.maintenance.reap() == 0
    job.ack()


def test_a_lease_that_is_renewed_between_the_look_and_the_act_is_left_alone(database):
    """The reaper's act names the token and the expiry again: what it saw may be old."""
    add.enqueue(1)
    job = claim_one(lease=0)
    seen = blame(live(job.id), Verdict.REAP, reaping.LEASE_EXPIRED, statements().now())
    job.renew(30)
    assert [item.outcome for item in statements().settle([seen], reaping=True)] == [Outcome.LOST]
    job.ack()
    assert [item.outcome for item in statements().settle([seen], reaping=True)] == [Outcome.LOST]


def test_a_job_that_never_started_gets_its_attempt_back_three_times(database):
    """So that a job which takes the whole machine down still ends."""
    handle = add.using(max_attempts=2).enqueue(1)
    for _ in range(3):
        [job] = claiming.claim({"default": 1}, lease=0, started=False)
        assert job.attempt == 1
        assert djqueue.maintenance.reap() == 1
        record = handle.job()
        assert (record.status, record.attempts, record.worker_ids, record.errors) == ("pending", 0, [], [])
        assert record.started_at is None
    for status in ("pending", "dead"):
        claiming.claim({"default": 1}, lease=0, started=False)
        djqueue.maintenance.reap()
        assert handle.status() == status
    assert handle.job().attempts == 2


def test_a_cancel_request_survives_a_reap(database):
    add.enqueue(1)
    job = claim_one(lease=0)
    rows(Job).filter(pk=job.id).update(cancel_requested=True)
    djqueue.maintenance.reap()
    assert claim_one().cancel_requested is True


def test_reap_pages_to_the_end(database, monkeypatch):
    monkeypatch.setattr(reaping, "BATCH", 3)
    for _ in range(10):
        JobFactory(expired=True)
    alive = JobFactory(claimed=True)
    assert djqueue.maintenance.reap() == 10
    assert rows(Job).filter(status="pending").count() == 10
    assert live(alive.pk).status == "claimed"


@pytest.mark.databases(*WITH_ROW_LOCKS)
def test_rows_that_somebody_has_locked_do_not_hold_up_the_others(database, monkeypatch):
    monkeypatch.setattr(reaping, "BATCH", 2)
    jobs = [JobFactory(expired=True) for _ in range(6)]
    with transaction.atomic(using=database):
        list(rows(Job).select_for_update().filter(pk__in=[job.pk for job in jobs[:3]]))
        assert in_thread(djqueue.maintenance.reap) == 3
    assert djqueue.maintenance.reap() == 3


def test_many_reapers_reap_each_job_once(database):
    for _ in range(40):
        JobFactory(expired=True, max_attempts=1)
    assert sum(in_threads(4, lambda _: djqueue.maintenance.reap())) == 40
    assert sum(rows(Throughput).values_list("dead", flat=True)) == 40
    assert djqueue.stats("default").dead == 40


def test_the_reaper_and_the_holder_race_and_one_wins(database):
    """Invariant: a job that its holder settled is not reaped, and one that was reaped is not settled."""
    for _ in range(10):
        handle = add.using(max_attempts=1).enqueue(1)
        job = claim_one(lease=0)

        def act(number: int, job=job) -> str:
            if number == 0:
                return "reaped" if djqueue.maintenance.reap() else ""
            try:
                job.ack()
            except djqueue.LeaseLost:
                return ""
            return "acked"

        [winner] = [answer for answer in in_threads(2, act) if answer]
        assert handle.status() == {"reaped": "dead", "acked": "done"}[winner]
        assert len(places(handle.id)) == 1


@pytest.mark.parametrize("how", ["task", "call"])
def test_no_retry_wins_also_over_a_reap(database, how):
    """Who says that a job must not run twice means it."""
    handle = fragile.enqueue() if how == "task" else add.using(retry=djqueue.NoRetry()).enqueue(1)
    claim_one(lease=0)
    djqueue.maintenance.reap()
    assert (handle.status(), handle.job().last_error) == ("dead", "lease expired")


def test_a_lease_of_zero_that_the_call_gave_is_over_at_once(database):
    for _ in range(20):
        add.using(lease=0).enqueue(1)
    assert len(djqueue.Queue("default").claim(20)) == 20
    assert djqueue.maintenance.reap() == 20
