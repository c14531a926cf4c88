from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

import djqueue
from djqueue.lifecycle import sweep
from djqueue.models import DeadJob, DoneJob
from tests.app.tasks import add
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory, ago
from tests.tools import WITH_ROW_LOCKS, claim_one, in_thread, rows, statements_sent


def test_sweep_done_takes_what_completed_longer_ago(database):
    old = DoneJobFactory(completed_at=ago(100), enqueued_at=ago(5))
    cancelled = DoneJobFactory(cancelled=True, completed_at=ago(100), queue="other")
    young = DoneJobFactory(completed_at=ago(10), enqueued_at=ago(1000))
    assert djqueue.maintenance.sweep_done(older_than=timedelta(seconds=50)) == 2
    assert [job.pk for job in rows(DoneJob).all()] == [young.pk]
    assert old.pk != cancelled.pk


def test_sweeps_follow_the_settings(configure):
    configure(KEEP_DONE=50, KEEP_DEAD=70, QUEUES={"short": {"keep_done": 5}, "long": {"keep_done": None}})
    for queue in ("default", "short", "long"):
        DoneJobFactory(queue=queue, completed_at=ago(20))
        DoneJobFactory(queue=queue, completed_at=ago(60))
    DeadJobFactory(failed_at=ago(60))
    DeadJobFactory(failed_at=ago(80))
    assert djqueue.maintenance.sweep_done() == 3
    assert djqueue.maintenance.sweep_dead() == 1
    assert sorted(rows(DoneJob).values_list("queue", flat=True)) == ["default", "long", "long"]


def test_nothing_is_swept_if_retention_is_unlimited(configure):
    configure(KEEP_DONE=None, KEEP_DEAD=None)
    DoneJobFactory(completed_at=ago(1e9))
    DeadJobFactory(failed_at=ago(1e9))
    assert djqueue.maintenance.sweep_done() == djqueue.maintenance.sweep_dead() == 0


def test_sweep_dead_goes_by_the_time_of_death_and_the_count_follows(database):
    DeadJobFactory(failed_at=ago(100))
    DeadJobFactory(failed_at=ago(10), enqueued_at=ago(1000))
    assert djqueue.stats("default").dead == 2
    assert djqueue.maintenance.sweep_dead(older_than=50) == 1
    assert djqueue.stats("default").dead == 1


def test_sweeping_done_jobs_keeps_their_count(database):
    for _ in range(3):
        add.enqueue(1)
        claim_one().ack()
    assert djqueue.maintenance.sweep_done(older_than=0) == 3
    assert djqueue.stats("default").done == 3


def test_live_jobs_are_never_swept(database):
    JobFactory(enqueued_at=ago(1e9))
    JobFactory(expired=True, enqueued_at=ago(1e9))
    assert djqueue.maintenance.sweep_done(0) == djqueue.maintenance.sweep_dead(0) == 0
    assert djqueue.stats("default").pending == 1


def test_sweeps_work_in_small_batches(database, monkeypatch):
    monkeypatch.setattr(sweep, "BATCH", 4)
    for _ in range(10):
        DeadJobFactory(failed_at=ago(100))
    with statements_sent() as sent:
        assert djqueue.maintenance.sweep_dead(50) == 10
    assert len([sql for sql in sent if sql.startswith("DELETE")]) == 3


@pytest.mark.databases(*WITH_ROW_LOCKS)
def test_a_sweep_skips_locked_rows(database):
    locked = DeadJobFactory(failed_at=ago(100))
    DeadJobFactory(failed_at=ago(99))
    with transaction.atomic(using=database):
        rows(DeadJob).select_for_update().get(pk=locked.pk)
        assert in_thread(djqueue.maintenance.sweep_dead, 50) == 1
    assert djqueue.maintenance.sweep_dead(50) == 1


def test_clear_dead_empties_one_queue(database):
    DeadJobFactory(queue="a")
    DeadJobFactory(queue="a")
    DeadJobFactory(queue="b")
    assert djqueue.Queue("a").clear_dead() == 2
    assert (djqueue.stats("a").dead, djqueue.stats("b").dead) == (0, 1)


def test_a_bad_age_is_an_error(database):
    with pytest.raises(djqueue.InvalidOption, match="older_than"):
        djqueue.maintenance.sweep_done(older_than=-1)
