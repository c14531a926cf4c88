from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connections, transaction

import djqueue
from djqueue.lifecycle import promote as promoting
from djqueue.models import Job
from tests.app.tasks import add
from tests.factories import JobFactory, ago
from tests.tools import WITH_ROW_LOCKS, claim_one, in_threads, live, rows


def test_due_jobs_become_pending(database):
    due = JobFactory(scheduled=True, run_at=ago(1))
    future = JobFactory(scheduled=True)
    assert djqueue.maintenance.promote() == 1
    assert djqueue.maintenance.promote() == 0
    assert claim_one().id == due.pk
    assert djqueue.get_job(future.pk).status == "scheduled"


def test_a_promoted_job_keeps_its_place(database):
    late = JobFactory(scheduled=True, run_at=ago(1), enqueued_at=ago(60))
    add.enqueue(1)
    djqueue.maintenance.promote()
    assert claim_one().id == late.pk


def test_all_due_jobs_are_promoted_in_batches(database, monkeypatch):
    monkeypatch.setattr(promoting, "BATCH", 4)
    for n in range(10):
        JobFactory(scheduled=True, run_at=ago(10 - n))
    assert djqueue.maintenance.promote() == 10
    assert rows(Job).filter(status="pending").count() == 10


def test_many_promoters_promote_each_job_once(database):
    for _ in range(40):
        JobFactory(scheduled=True, run_at=ago(1))
    assert sum(in_threads(4, lambda _: djqueue.maintenance.promote())) == 40


def test_a_delayed_job_starts_after_its_time_and_not_before(database):
    handle = add.using(delay=timedelta(milliseconds=1)).enqueue(1)
    while not djqueue.maintenance.promote():
        assert handle.status() == "scheduled"
    record = handle.job()
    assert record.status == "pending"
    assert claim_one().claimed_at >= record.run_at


@pytest.mark.databases(*WITH_ROW_LOCKS)
def test_a_due_job_that_is_locked_does_not_hold_up_the_others(database):
    locked, *others = (JobFactory(scheduled=True, run_at=ago(9 - n)) for n in range(3))

    def promote() -> int:
        try:
            return djqueue.maintenance.promote()
        finally:
            connections.close_all()

    # The lock is released before the thread is joined, so that a promotion that waits fails instead of hanging.
    with ThreadPoolExecutor(1) as pool, transaction.atomic(using=database):
        rows(Job).select_for_update().get(pk=locked.pk)
        assert pool.submit(promote).result(10) == 2
    assert [live(job.pk).status for job in (locked, *others)] == ["scheduled", "pending", "pending"]
    assert djqueue.maintenance.promote() == 1


def test_a_job_keeps_its_priority_through_a_retry_and_its_promotion(database):
    low, normal, high = (add.using(priority=p).enqueue(1) for p in (djqueue.LOW, djqueue.NORMAL, djqueue.HIGH))
    for job in djqueue.Queue("default").claim(3):
        job.nack("boom", delay=0.001)
    promoted = 0
    while promoted < 3:
        promoted += djqueue.maintenance.promote()
    assert [handle.job().priority for handle in (low, normal, high)] == [djqueue.LOW, djqueue.NORMAL, djqueue.HIGH]
    assert [job.id for job in djqueue.Queue("default").claim(3)] == [high.id, normal.id, low.id]
