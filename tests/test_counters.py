from __future__ import annotations

from django.db.models import Sum

import djqueue
from djqueue import counters
from djqueue.lifecycle import settle
from djqueue.models import Throughput
from djqueue.records import QueueStats
from djqueue.sql.base import BUCKETS
from tests.app.tasks import add, eager_retry
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory, QueueStateFactory, ThroughputFactory, ago
from tests.tools import claim_one, in_threads, rows, statements_sent


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


def test_queues_are_all_that_ever_had_a_job(database):
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


def test_concurrent_roll_ups_lose_and_double_nothing(database, monkeypatch):
    monkeypatch.setattr(counters, "ROLL_UP_BATCH", 7)
    for _ in range(60):
        ThroughputFactory()
    in_threads(4, lambda _: djqueue.maintenance.roll_up())
    assert djqueue.stats("default").done == 60
