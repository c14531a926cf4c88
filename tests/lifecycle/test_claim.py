from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

import djqueue
from djqueue.core.uuid7 import uuid7
from djqueue.lifecycle import claim as claiming
from djqueue.models import Job, QueueState
from djqueue.sql import statements
from djqueue.sql.columns import MAX_WORKER_IDS
from tests.app.tasks import add, charge
from tests.factories import JobFactory, ago
from tests.tools import WITH_ROW_LOCKS, claim_one, claim_request, database_now, in_thread, in_threads, live, rows


def test_a_claim_takes_the_job_under_a_lease(database):
    handle = add.using(headers={"h": 1}).enqueue(1, b=2)
    job = claim_one()
    assert (job.id, job.task, job.queue) == (handle.id, "tests.app.tasks.add", "default")
    assert (job.args, job.kwargs, job.headers) == ([1], {"b": 2}, {"h": 1})
    assert (job.attempt, job.max_attempts, job.priority, job.last_error) == (1, 3, 1000, "")
    assert job.cancel_requested is False
    assert job.lease_expires_at - job.claimed_at == timedelta(seconds=30)
    assert abs(job.claimed_at - database_now()) < timedelta(seconds=60)
    record = handle.job()
    assert (record.status, record.attempts) == ("claimed", 1)
    assert (record.claimed_at, record.lease_expires_at) == (job.claimed_at, job.lease_expires_at)
    assert record.started_at == record.last_attempted_at == job.claimed_at
    assert record.worker_ids == [job.worker]


def test_a_claimed_job_is_not_claimed_again(database):
    add.enqueue(1)
    claim_one()
    assert djqueue.Queue("default").claim() == []


def test_a_claim_returns_at_most_what_was_asked_for(database):
    for _ in range(5):
        add.enqueue(1)
    queue = djqueue.Queue("default")
    assert queue.claim(0) == []
    assert len(queue.claim(3)) == 3
    assert len(queue.claim(3)) == 2
    assert queue.claim(3) == []


def test_a_bad_limit_is_an_error(database):
    for limit in (-1, True, "2"):
        with pytest.raises(djqueue.InvalidOption, match="must be a whole number"):
            djqueue.Queue("default").claim(limit)


def test_lower_priority_runs_first_and_enqueue_order_within_one(database):
    ids = [
        add.using(priority=priority).enqueue(1).id
        for priority in (djqueue.LOW, djqueue.NORMAL, djqueue.HIGH, djqueue.NORMAL, -5)
    ]
    expected = [ids[4], ids[2], ids[1], ids[3], ids[0]]
    assert [job.id for job in djqueue.Queue("default").claim(2)] == expected[:2]
    assert [job.id for job in djqueue.Queue("default").claim(9)] == expected[2:]


def test_neither_a_skewed_producer_nor_an_own_id_jumps_the_queue(database):
    first = add.enqueue(1)
    earlier = "00000000-0000-7000-8000-000000000001"
    add.using(id=earlier).enqueue(2)
    assert claim_one().id == first.id


def test_jobs_of_one_transaction_keep_their_order(database):
    with transaction.atomic(using=database):
        ids = [add.enqueue(n).id for n in range(20)]
    assert [job.id for job in djqueue.Queue("default").claim(20)] == ids


def test_a_retry_keeps_its_priority_and_its_place(database):
    first = add.using(retry=djqueue.Fixed(0)).enqueue(1)
    second = add.enqueue(2)
    claim_one().nack("boom")
    assert [job.id for job in djqueue.Queue("default").claim(2)] == [first.id, second.id]


def test_queues_are_isolated(database):
    add.using(queue="a").enqueue(1)
    b = add.using(queue="b").enqueue(1)
    assert [job.id for job in djqueue.Queue("b").claim(5)] == [b.id]
    assert djqueue.Queue("c").claim(5) == []


def test_a_claim_over_several_queues_keeps_each_limit_and_the_total(database):
    for queue in ("a", "b", "c"):
        for _ in range(4):
            add.using(queue=queue).enqueue(1)
    claimed = claiming.claim({"a": 1, "b": 3, "c": 0, "none": 5}, limit=3)
    assert sorted(job.queue for job in claimed) == ["a", "b", "b"]
    assert len(claiming.claim({"a": 9, "b": 9, "c": 9})) == 9


def test_a_claim_over_several_queues_returns_the_best_first(database):
    low = add.using(queue="a", priority=djqueue.LOW).enqueue(1)
    high = add.using(queue="b", priority=djqueue.HIGH).enqueue(1)
    assert [job.id for job in claiming.claim({"a": 5, "b": 5}, limit=1)] == [high.id]
    assert [job.id for job in claiming.claim({"a": 5, "b": 5}, limit=1)] == [low.id]


def test_no_job_of_a_paused_queue_is_claimed(database):
    add.using(queue="a").enqueue(1)
    add.using(queue="b").enqueue(1)
    queue = djqueue.Queue("a")
    queue.pause()
    queue.pause()
    assert queue.paused
    assert queue.claim(5) == []
    assert [job.queue for job in claiming.claim({"a": 5, "b": 5})] == ["b"]
    queue.resume()
    assert not queue.paused
    assert len(queue.claim(5)) == 1
    assert rows(QueueState).count() == 1


def test_scheduled_jobs_are_not_claimed(database):
    JobFactory(scheduled=True)
    JobFactory(claimed=True)
    assert djqueue.Queue("default").claim(5) == []


@pytest.mark.parametrize("lease", [0, 0.25, 7, timedelta(minutes=2)])
def test_the_caller_of_claim_sets_the_lease(database, lease):
    add.using(lease=99).enqueue(1)
    job = claim_one(lease=lease)
    assert job.lease_expires_at - job.claimed_at == (
        lease if isinstance(lease, timedelta) else timedelta(seconds=lease)
    )


def test_the_most_specific_lease_wins(configure):
    configure(LEASE=20, QUEUES={"q": {"lease": 15.5}})

    def lease() -> float:
        [job] = claiming.claim({"default": 1, "q": 1, "money": 1})
        return round((job.lease_expires_at - job.claimed_at).total_seconds(), 2)

    add.enqueue(1)
    assert lease() == 20
    add.using(queue="q").enqueue(1)
    assert lease() == 15.5
    charge.using(queue="q").enqueue(1)
    assert lease() == 12
    charge.using(queue="q", lease=3.25).enqueue(1)
    assert lease() == 3.25


def test_a_lease_that_all_tasks_and_queues_share_is_that_of_jobs_without_their_own(database):
    add.enqueue(1)
    add.using(queue="q", lease=3.25).enqueue(1)
    claimed = statements().claim(claim_request({"default": 1, "q": 1}))
    assert {row.queue: round(row.lease_expires_at - row.claimed_at, 6) for row in claimed} == {"default": 30, "q": 3.25}


def test_different_leases_of_queues_in_one_claim(database):
    for queue in ("default", "q"):
        add.using(queue=queue).enqueue(1)
    leases = {"default": 20.0, "q": 15.5}
    claimed = statements().claim(claim_request({"default": 1, "q": 1}, leases=leases))
    assert {row.queue: round(row.lease_expires_at - row.claimed_at, 6) for row in claimed} == leases


@pytest.mark.parametrize(("begin", "started"), [(0, 0), (1, 1), (2, 2), (3, 3), (9, 3)])
def test_the_best_jobs_of_a_claim_are_marked_as_started(database, begin, started):
    add.enqueue_many([djqueue.call(n) for n in range(3)])
    best = [row.id for row in statements().claim(claim_request({"default": 5}, begin=begin))]
    assert {job.id for job in rows(Job).filter(started=True)} == set(best[:started])


def test_queue_reports_its_configured_lease(configure):
    configure(QUEUES={"q": {"lease": timedelta(minutes=1)}})
    assert (djqueue.Queue("q").lease, djqueue.Queue("other").lease) == (60, 30)


@pytest.mark.databases(*WITH_ROW_LOCKS)
def test_a_claim_skips_rows_that_another_transaction_has_locked(database):
    for _ in range(3):
        add.enqueue(1)
    with transaction.atomic(using=database):
        mine = claim_one()
        theirs = in_thread(djqueue.Queue("default").claim, 5)
    assert len(theirs) == 2
    assert mine.id not in [job.id for job in theirs]


def test_a_rolled_back_claim_costs_no_attempt(database):
    add.enqueue(1)
    with pytest.raises(RuntimeError), transaction.atomic(using=database):
        claim_one()
        raise RuntimeError
    assert claim_one().attempt == 1


def test_the_second_attempt_knows_the_error_of_the_first(database):
    add.using(retry=djqueue.Fixed(0)).enqueue(1)
    claim_one().nack("first trouble")
    job = claim_one()
    assert (job.attempt, job.last_error) == (2, "first trouble")
    record = djqueue.get_job(job.id)
    assert record.started_at < record.last_attempted_at == job.claimed_at
    assert record.worker_ids == [job.worker, job.worker]


def test_two_claimers_never_get_one_job(database):
    """Invariant: every job is claimed exactly once, however many claim at the same moment."""
    ids = {add.enqueue(n).id for n in range(60)}

    def drain(number: int) -> list[object]:
        got = []
        while jobs := djqueue.Queue("default").claim(4):
            got += [job.id for job in jobs]
        return got

    claimed = [job_id for part in in_threads(4, drain) for job_id in part]
    # A claimer that met only locked rows gave up early; the rest is still there, not lost.
    claimed += drain(0)
    assert len(claimed) == len(ids)
    assert set(claimed) == ids


def test_an_invalid_payload_does_not_stop_other_jobs_of_the_claim(database):
    bad, good = JobFactory(enqueued_at=ago(9)), JobFactory()
    rows(type(bad)).filter(pk=bad.pk).update(args=RawText("{not json"))
    claimed = djqueue.Queue("default").claim(2)
    assert [job.id for job in claimed] == [bad.pk, good.pk]
    with pytest.raises(ValueError, match="Expecting"):
        _ = claimed[0].args
    claimed[0].dead_letter("spoilt")
    claimed[1].ack()


def RawText(text: str):  # noqa: N802 - reads as the value that it is
    from django.db.models import TextField, Value

    return Value(text, output_field=TextField())


def test_claim_order_is_by_time_then_id(database):
    moment = ago(60)
    ids = sorted(uuid7() for _ in range(6))
    for job_id in reversed(ids):
        JobFactory(id=job_id, enqueued_at=moment, run_at=moment)
    assert [claim_one().id for _ in range(3)] == ids[:3]
    assert [job.id for job in djqueue.Queue("default").claim(6)] == ids[3:]
    assert live(ids[0]).status == "claimed"


def test_jobs_of_more_queues_than_one_statement_takes_are_claimed_in_turns(database):
    wants = {f"q{n}": 1 for n in range(600)}
    add.enqueue_many([call_in(queue) for queue in wants])
    claimed = claiming.claim(wants)
    assert len(claimed) == claiming.MOST_QUEUES
    claimed += claiming.claim(wants)
    assert {job.queue for job in claimed} == set(wants)
    assert claiming.claim(wants) == []


def call_in(queue: str) -> djqueue.Call:
    return djqueue.call(1).using(queue=queue)


def test_ten_thousand_task_leases_do_not_lengthen_the_statements_of_a_claim(database, monkeypatch):
    """PostgreSQL gets them as two arrays; elsewhere they made the statements very long and slow."""
    from djqueue.core import registry

    leases = {f"task{n}": 10.0 + n for n in range(10_000)} | {"shop.charge": 12.0}
    monkeypatch.setattr(registry, "task_leases", lambda: leases)
    add.enqueue_many([djqueue.call(n) for n in range(100)])
    handle = charge.using(queue="default").enqueue(1)
    own = charge.using(queue="default", lease=7).enqueue(1)
    with CaptureQueriesContext(connections[database]) as queries:
        jobs = {job.id: job for job in djqueue.Queue("default").claim(102)}
    if not database.startswith("postgresql"):
        assert not any("task9999" in query["sql"] for query in queries)
    assert (jobs[handle.id].lease, jobs[own.id].lease) == (12, 7)
    assert live(handle.id).lease_expires_at == jobs[handle.id].lease_expires_at
    assert live(own.id).lease_expires_at - live(own.id).claimed_at == timedelta(seconds=7)
    assert sorted({job.lease for job in jobs.values()}) == [7, 12, 30]


@pytest.mark.databases("sqlite", "mysql")
def test_the_workers_of_a_job_are_bounded_to_the_newest(database):
    handle = add.using(max_attempts=100_000, retry=djqueue.Fixed(0)).enqueue(1)
    old = [f"worker-{n:07}" for n in range(5000)]
    rows(Job).filter(pk=handle.id).update(worker_ids=old)
    [claimed] = claiming.claim({"default": 1}, worker="the newest")
    kept = live(handle.id).worker_ids
    assert kept[-2:] == [old[-1], "the newest"]
    assert MAX_WORKER_IDS - 16 < len("".join(f"{word}," for word in kept)) <= MAX_WORKER_IDS
    assert kept[:-1] == old[-len(kept) + 1 :]
    assert claimed.row.worker_ids == "".join(f"{word}," for word in kept)
    claimed.release()
    assert live(handle.id).worker_ids == kept[:-1]
