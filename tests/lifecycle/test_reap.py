from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import transaction

import djqueue
from djqueue import call
from djqueue.lifecycle import claim as claiming
from djqueue.lifecycle import reap as reaping
from djqueue.lifecycle import settle
from djqueue.lifecycle.crash import Left, blame, recover, release_claims
from djqueue.lifecycle.outcome import decide
from djqueue.models import Job, Throughput
from djqueue.sql import statements
from djqueue.states import Outcome, Verdict
from tests.app.tasks import add, fragile, steady
from tests.factories import JobFactory, ago
from tests.tools import WITH_ROW_LOCKS, claim_one, database_now, in_thread, in_threads, live, places, rows


def test_a_job_whose_lease_expired_is_pending_at_once(database):
    handle = steady.enqueue()
    job = claim_one(lease=0)
    assert djqueue.maintenance.reap() == 1
    record = handle.job()
    assert (record.status, record.attempts, record.last_error) == ("pending", 1, "lease expired")
    assert (record.errors[0]["message"], record.errors[0]["worker"]) == ("lease expired", job.worker)
    assert record.worker_ids == [job.worker]
    assert record.failed_at is not None
    assert claim_one().attempt == 2


def test_a_reap_of_the_last_attempt_is_death(database):
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


def test_a_lease_renewed_after_the_reaper_read_it_is_left_alone(database):
    """The reaper's act names the token and the expiry again: what it saw may be old."""
    add.enqueue(1)
    job = claim_one(lease=0)
    seen = decide(blame(live(job.id), Verdict.REAP, reaping.LEASE_EXPIRED, statements().now()))
    job.renew(30)
    assert [item.outcome for item in statements().settle([seen], expired_at=statements().now())] == [Outcome.LOST]
    job.ack()
    assert [item.outcome for item in statements().settle([seen], expired_at=statements().now())] == [Outcome.LOST]


def test_a_job_claimed_again_after_the_reaper_read_it_is_left_alone(database):
    """Also if the lease of the new claim has expired by then: the reaper blames the claim that it has read."""
    add.enqueue(1)
    job = claim_one(lease=0)
    seen = decide(blame(live(job.id), Verdict.REAP, reaping.LEASE_EXPIRED, statements().now()))
    job.release()
    again = claim_one(lease=0)
    assert [item.outcome for item in statements().settle([seen], expired_at=statements().now())] == [Outcome.LOST]
    again.ack()


def test_a_job_that_never_started_gets_its_attempt_back_three_times(database):
    """So that a job which takes the whole machine down still ends."""
    handle = add.using(max_attempts=2).enqueue(1)
    for _ in range(3):
        [job] = claiming.claim({"default": 1}, lease=0, begin=0)
        assert job.attempt == 1
        assert djqueue.maintenance.reap() == 1
        record = handle.job()
        assert (record.status, record.attempts, record.worker_ids, record.errors) == ("pending", 0, [], [])
        assert record.started_at is None
    for status in ("pending", "dead"):
        claiming.claim({"default": 1}, lease=0, begin=0)
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
def test_locked_rows_do_not_hold_up_the_others(database, monkeypatch):
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
    """A job with NoRetry never runs twice, also not after a crash."""
    handle = fragile.enqueue() if how == "task" else add.using(retry=djqueue.NoRetry()).enqueue(1)
    claim_one(lease=0)
    djqueue.maintenance.reap()
    assert (handle.status(), handle.job().last_error) == ("dead", "lease expired")


def test_a_lease_of_zero_seconds_expires_at_once(database):
    for _ in range(20):
        add.using(lease=0).enqueue(1)
    assert len(djqueue.Queue("default").claim(20)) == 20
    assert djqueue.maintenance.reap() == 20


def test_the_back_off_of_a_job_whose_process_was_killed_grows_with_its_attempts(configure):
    configure(BACKOFF_BASE=10, BACKOFF_MAX=30, BACKOFF_JITTER=0)
    handle = add.using(max_attempts=9).enqueue(1)
    held = add.enqueue(2)
    for attempt, delay in enumerate([10, 20, 30, 30], start=1):
        left = [Left(job.id, job.token, blamed=job.id == handle.id) for job in djqueue.Queue("default").claim(2)]
        assert recover(left, "killed", crashed=True) == []
        record = handle.job()
        assert (record.status, record.attempts, record.last_error) == ("scheduled", attempt, "killed")
        assert round((record.run_at - record.failed_at).total_seconds(), 1) == delay
        assert (held.status(), held.job().attempts, held.job().errors) == ("pending", 0, [])
        djqueue.reschedule(handle.id, run_at=ago(1))


def test_jobs_of_a_claim_whose_answer_was_lost_are_released_unspent(database):
    """Its jobs have not begun, even if their rows are marked as started. Jobs of other claims are left alone."""
    handles = add.using(max_attempts=1).enqueue_many([call(n) for n in range(4)])
    token = uuid4()
    [arrived, *_] = claiming.claim({"default": 3}, token=token)
    other = claim_one()
    assert release_claims([token, uuid4()], known=[arrived.id]) == 2
    assert [handle.status() for handle in handles] == ["claimed", "pending", "pending", "claimed"]
    assert all(handle.job().attempts == 0 and handle.job().worker_ids == [] for handle in handles[1:3])
    assert release_claims([token], known=[arrived.id]) == 0
    arrived.ack()
    other.ack()


def test_a_job_that_ended_before_its_process_died_is_settled_by_its_outcome(database):
    """A job that was settled meanwhile is left alone."""
    [done, failed, gone] = [add.enqueue(n) for n in range(3)]
    jobs = {job.id: job for job in djqueue.Queue("default").claim(3)}
    jobs[gone.id].ack("by another")
    outcomes = {
        done.id: settle.ack(jobs[done.id], "result"),
        failed.id: settle.nack(jobs[failed.id], "boom", delay=60),
        gone.id: settle.nack(jobs[gone.id], "late"),
    }
    left = [Left(job.id, job.token, outcome=outcomes[job.id]) for job in jobs.values()]
    assert recover(left, "worker process exited", crashed=True) == []
    assert (done.status(), done.job().result, done.job().attempts) == ("done", "result", 1)
    assert (failed.status(), failed.job().last_error, live(failed.id).crashes) == ("scheduled", "boom", 0)
    assert (gone.status(), gone.job().result) == ("done", "by another")


def test_a_job_claimed_again_is_not_blamed_for_the_crash_of_its_former_holder(database):
    handle = add.enqueue(1)
    former = claim_one()
    former.release()
    current = claim_one()
    assert recover([Left(former.id, former.token, blamed=True)], "killed", crashed=True) == []
    assert (handle.status(), handle.job().errors, live(handle.id).crashes) == ("claimed", [], 0)
    current.ack()


def test_a_claimed_row_without_a_token_does_not_stop_the_reaper(database):
    """Written by hand; it is left, and logged."""
    JobFactory(expired=True, token=None)
    JobFactory(expired=True)
    assert djqueue.maintenance.reap() == 1


def test_a_reap_that_may_not_act_changes_nothing(database):
    JobFactory(expired=True)
    assert reaping.reap(lambda: False) == 0
    assert reaping.any_expired()
    assert reaping.reap(lambda: True) == 1
    assert not reaping.any_expired()


def test_a_job_that_was_in_a_crash_can_be_released_with_a_delay(database):
    """Unspent, and still known to have met a crash."""
    handle = add.enqueue(1)
    rows(Job).update(crashes=1)
    job = claim_one()
    assert recover([Left(job.id, job.token, delay=60)], "too many", crashed=False) == []
    row = live(handle.id)
    assert (row.status, row.attempts, row.crashes, row.errors) == ("scheduled", 0, 1, [])
    assert 50 < (row.run_at - database_now()).total_seconds() <= 60


def test_a_crash_counts_against_blamed_jobs_until_an_attempt_ends_by_itself(database):
    blamed, held = (add.enqueue(n) for n in range(2))
    left = [Left(job.id, job.token, blamed=job.id == blamed.id) for job in djqueue.Queue("default").claim(2)]
    assert recover(left, "killed", crashed=True) == []
    assert [live(handle.id).crashes for handle in (blamed, held)] == [1, 0]
    djqueue.reschedule(blamed.id, run_at=ago(1))
    for job in djqueue.Queue("default").claim(2):
        job.nack("boom", delay=60)
    assert [live(handle.id).crashes for handle in (blamed, held)] == [0, 0]
