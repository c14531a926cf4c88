from __future__ import annotations

from datetime import timedelta

import djqueue
from djqueue.lifecycle import promote as promoting
from djqueue.models import Job
from tests.app.tasks import add
from tests.factories import JobFactory, ago
from tests.tools import claim_one, in_threads, rows


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


def test_all_that_is_due_is_promoted_in_batches(database, monkeypatch):
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
