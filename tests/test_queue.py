from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import Sum

import djqueue
from djqueue.core.records import QueueStats
from djqueue.lifecycle import settle, throughput
from djqueue.models import Throughput
from djqueue.sql.throughput import BUCKETS
from tests.app.tasks import add, eager_retry
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory, QueueStateFactory, ThroughputFactory, ago
from tests.tools import claim_one, database_now, in_threads, rows, statements_sent


def test_stats_count_every_state_exactly(database):
    for _ in range(3):
        JobFactory(queue="q")
    JobFactory(queue="q", scheduled=True)
    JobFactory(queue="q", claimed=True)
    JobFactory(queue="other")
    DeadJobFactory(queue="q")
    DoneJobFactory(queue="q")
    ThroughputFactory(queue="q", done=7)
    ThroughputFactory(queue="q", done=5)
    with statements_sent() as sent:
        assert djqueue.stats("q") == QueueStats(pending=3, scheduled=1, claimed=1, done=12, dead=1)
    assert len(sent) == 1
    assert djqueue.Queue("q").stats() == djqueue.stats("q")
    assert djqueue.stats("never") == QueueStats()


def test_queues_lists_every_queue_that_ever_had_a_job(database):
    assert djqueue.queues() == []
    JobFactory(queue="pending")
    JobFactory(queue="scheduled", scheduled=True)
    JobFactory(queue="claimed", claimed=True)
    DeadJobFactory(queue="dead")
    QueueStateFactory(queue="never had one", paused=True)
    djqueue.Queue("nor-this").resume()
    add.using(queue="done").enqueue(1)
    claim_one("done").ack()
    djqueue.maintenance.sweep_done(0)
    assert djqueue.queues() == ["claimed", "dead", "done", "pending", "scheduled"]


def test_counts_are_written_with_the_settlement(database):
    for task in (add, add, eager_retry, eager_retry):
        task.using(queue="q", max_attempts=1).enqueue(*([1] if task is add else []))
    one, two, three, four = djqueue.Queue("q").claim(4)
    settle.settle_many([settle.ack(one), settle.ack(two), settle.nack(three, "x"), settle.cancel(four)])
    totals = {
        row["task"].rsplit(".")[-1]: (row["d"], row["f"], row["x"], row["c"])
        for row in rows(Throughput)
        .values("task")
        .annotate(d=Sum("done"), f=Sum("failed"), x=Sum("dead"), c=Sum("cancelled"))
    }
    assert totals == {"add": (2, 0, 0, 0), "eager_retry": (0, 1, 1, 1)}


def test_a_retry_counts_as_a_failed_attempt_and_a_snooze_as_nothing(database):
    add.enqueue(1)
    claim_one().snooze(0)
    claim_one().release()
    assert not rows(Throughput).exists()
    claim_one().nack("boom", delay=0)
    claim_one().ack()
    totals = rows(Throughput).aggregate(d=Sum("done"), f=Sum("failed"), x=Sum("dead"))
    assert totals == {"d": 1, "f": 1, "x": 0}


def test_waits_and_runs_fall_into_their_histogram_cells(database):
    JobFactory(enqueued_at=ago(20), run_at=ago(20))
    job = claim_one()
    job.clock -= 1.5
    job.ack()
    [row] = rows(Throughput).all()
    assert BUCKETS[row.wait_bucket - 1] <= 20 < BUCKETS[row.wait_bucket]
    assert BUCKETS[row.run_bucket - 1] <= 1.5 < BUCKETS[row.run_bucket]
    assert 20 <= row.wait_sum < 30
    assert 1.5 <= row.run_sum < 10
    assert (row.minute.second, row.minute.microsecond) == (0, 0)


def test_roll_up_merges_rows_and_keeps_every_sum(database):
    for _ in range(5):
        ThroughputFactory(minute=ago(600).replace(second=0, microsecond=0), done=1, failed=2, wait_sum=0.5)
    ThroughputFactory(minute=ago(600).replace(second=0, microsecond=0), run_bucket=3, done=1)
    now = ThroughputFactory(minute=ago(0).replace(second=0, microsecond=0), done=1)
    old = ago(3 * 86400)
    for minute in range(3):
        ThroughputFactory(minute=old.replace(minute=minute, second=0, microsecond=0), rolled=1, done=10)
    before = rows(Throughput).aggregate(Sum("done"), Sum("failed"), Sum("wait_sum"))
    assert djqueue.maintenance.roll_up() == 9
    assert rows(Throughput).aggregate(Sum("done"), Sum("failed"), Sum("wait_sum")) == before
    assert sorted(rows(Throughput).values_list("rolled", "done")) == [(0, 1), (1, 1), (1, 5), (2, 30)]
    assert rows(Throughput).filter(pk=now.pk).exists()
    assert djqueue.maintenance.roll_up() == 0


def test_concurrent_roll_ups_neither_lose_nor_double_counts(database, monkeypatch):
    monkeypatch.setattr(throughput, "ROLL_UP_BATCH", 7)
    for _ in range(60):
        ThroughputFactory()
    in_threads(4, lambda _: djqueue.maintenance.roll_up())
    assert djqueue.stats("default").done == 60


def test_counts_older_than_a_year_are_one_row_per_queue_and_task(database):
    def age(days: int, **cell: object) -> None:
        midnight = ago(days * 86400).replace(hour=0, minute=0, second=0, microsecond=0)
        ThroughputFactory(minute=midnight, rolled=3, **cell)

    for days in (368, 400, 900):
        for bucket in range(3):
            age(days, wait_bucket=bucket, run_bucket=bucket, done=2, failed=1, wait_sum=0.5)
    age(400, queue="other", done=7)
    age(400, task="other", done=3)
    age(300, done=5)
    assert djqueue.maintenance.roll_up() == 11
    for _ in range(2):  # what came of age later joins the same row
        age(367, done=1)
        assert djqueue.maintenance.roll_up() == 1
    old = rows(Throughput).filter(rolled=4).values_list("queue", "task", "done", "failed", "wait_sum")
    assert sorted(old) == [
        ("default", "other", 3, 0, 0.0),
        ("default", "tests.app.tasks.add", 20, 9, 4.5),
        ("other", "tests.app.tasks.add", 7, 0, 0.0),
    ]
    assert rows(Throughput).count() == 4
    assert djqueue.stats("default").done == 28
    assert djqueue.maintenance.roll_up() == 0


@pytest.mark.parametrize(("level", "days", "unit"), [(1, 2, "hour"), (2, 60, "day")])
def test_an_hour_and_a_day_are_rolled_up_when_they_are_complete(database, level, days, unit):
    """Rolled up minute by minute, an hour would stay sixty rows."""
    start = (database_now() - timedelta(days=days)).replace(minute=0, second=0, microsecond=0)
    start = start.replace(hour=0) if unit == "day" else start
    part = timedelta(minutes=1) if unit == "hour" else timedelta(hours=1)
    for number in range(20):
        ThroughputFactory(minute=start - part - number * part, rolled=level)
    for number in range(20):
        ThroughputFactory(minute=start + number * part, rolled=level)
    assert djqueue.maintenance.roll_up() == 20
    assert sorted(rows(Throughput).values_list("rolled", "done")) == [(level, 1)] * 20 + [(level + 1, 20)]
