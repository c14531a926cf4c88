from __future__ import annotations

import threading

import pytest
from django.db import DatabaseError, OperationalError, transaction

import djqueue
from djqueue.models import KV, Job
from tests.app.tasks import add
from tests.tools import WITH_ROW_LOCKS, claim_one, in_thread, in_threads, rows


def enqueue(key: str = "k", **options):
    return add.using(dedup_key=key, **options).enqueue(1)


def test_a_waiting_job_holds_its_key(database):
    first = enqueue()
    second = enqueue(queue="default", priority=1, kv={"written": 1})
    assert (second.id, second.created) == (first.id, False)
    assert rows(Job).count() == 1
    assert not rows(KV).exists()
    assert first.job().priority == 1000


def test_a_scheduled_job_holds_its_key_too(database):
    first = enqueue(delay=60)
    assert enqueue().id == first.id
    assert first.status() == "scheduled"


def test_keys_belong_to_their_queue(database):
    assert enqueue(queue="a").id != enqueue(queue="b").id


def test_the_claim_releases_the_key(database):
    first = enqueue()
    claim_one()
    second = enqueue()
    assert second.created
    assert second.id != first.id
    assert first.job().dedup_key is None


@pytest.mark.parametrize("end", ["ack", "dead", "cancel"])
def test_until_done_the_key_is_held_through_running_and_retries(database, end):
    first = enqueue(dedup_until="done", retry=djqueue.Fixed(0))
    job = claim_one()
    assert enqueue().id == first.id
    job.nack("boom")
    assert enqueue().id == first.id
    if end == "cancel":
        first.cancel()
    else:
        job = claim_one()
        job.ack() if end == "ack" else job.dead_letter("no")
    second = enqueue()
    assert second.created
    assert second.id != first.id


def test_a_cancel_releases_the_key(database):
    first = enqueue()
    first.cancel()
    assert enqueue().created


def test_a_retry_without_its_key_does_not_release_the_key_of_a_newer_job(database):
    old = enqueue(retry=djqueue.Fixed(0))
    claim_one().nack("boom")
    new = enqueue()
    assert new.created
    assert claim_one().id == old.id
    assert enqueue().id == new.id
    djqueue.Queue("default").claim()
    assert enqueue().created


@pytest.mark.parametrize("back", ["nack", "snooze", "release", "reap", "requeue"])
def test_a_job_that_becomes_waiting_again_coexists_with_a_new_holder_of_its_key(database, back):
    old = enqueue()
    job = claim_one(lease=0)
    new = enqueue()
    {
        "nack": lambda: job.nack("boom", delay=0),
        "snooze": lambda: job.snooze(0),
        "release": lambda: job.release(),
        "reap": djqueue.maintenance.reap,
        "requeue": lambda: (job.dead_letter("x"), djqueue.requeue(old.id)),
    }[back]()
    assert old.status() == new.status() == "pending"
    assert enqueue().id == new.id


def test_a_key_survives_promotion(database):
    first = enqueue(delay=0.001)
    while not djqueue.maintenance.promote():
        pass
    assert enqueue().id == first.id


def test_eight_producers_race_for_one_key(database):
    """Invariant: one job, seven hits, no error."""
    for round_number in range(5):
        handles = in_threads(8, lambda _, key=f"k{round_number}": enqueue(key))
        assert len({handle.id for handle in handles}) == 1
        assert sorted(handle.created for handle in handles) == [False] * 7 + [True]
    assert rows(Job).count() == 5


def test_producers_race_with_claimers_and_nothing_is_lost(database):
    """Invariant: after an enqueue returned, a job that was not yet claimed at that moment exists."""

    def work(number: int) -> tuple[int, int]:
        created = claimed = 0
        for _ in range(30):
            if number < 2:
                created += bool(enqueue("hot").created)
            else:
                claimed += len(djqueue.Queue("default").claim(5))
        return created, claimed

    totals = in_threads(4, work)
    created, claimed = (sum(part) for part in zip(*totals, strict=True))
    assert created == claimed + rows(Job).filter(status="pending").count()
    assert rows(Job).filter(status="pending").count() <= 1


def test_a_dedup_hit_keeps_the_job_unclaimed_until_the_transaction_ends(database):
    """So that the job, when it runs, sees the data of every transaction that enqueued it."""
    first = enqueue()
    claimed: list[object] = []
    with transaction.atomic(using=database):
        assert enqueue().created is False
        if database == "sqlite":
            # The file is locked as a whole: the claim waits for us.
            thread = threading.Thread(target=lambda: claimed.extend(in_thread(djqueue.Queue("default").claim)))
            thread.start()
            assert not claimed
        else:
            assert in_thread(djqueue.Queue("default").claim) == []
    if database == "sqlite":
        thread.join(30)
    else:
        claimed.extend(in_thread(djqueue.Queue("default").claim))
    assert [job.id for job in claimed] == [first.id]


@pytest.mark.databases(*WITH_ROW_LOCKS)
def test_a_deadlock_between_two_callers_reaches_one_of_them_unchanged(database):
    """Keys a, b against b, a in two transactions: the database picks a victim, and nothing of its work stays."""
    enqueue("a")
    enqueue("b")
    barrier = threading.Barrier(2)

    def work(number: int) -> BaseException | None:
        keys = ["a", "b"] if number == 0 else ["b", "a"]
        try:
            with transaction.atomic(using=database):
                enqueue(keys[0])
                add.using(queue="mine").enqueue(number)
                barrier.wait(30)
                enqueue(keys[1])
        except DatabaseError as error:
            return error
        return None

    errors = [error for error in in_threads(2, work) if error is not None]
    assert len(errors) == 1
    assert isinstance(errors[0], OperationalError)
    code = getattr(errors[0].__cause__, "sqlstate", None) or errors[0].args[0]
    assert code in ("40P01", "40001", 1213)
    assert rows(Job).filter(queue="mine").count() == 1
    assert rows(Job).count() == 3


def test_an_own_id_and_a_key_together(database):
    own = "0198c9b4-0000-7000-8000-00000000000a"
    other = "0198c9b4-0000-7000-8000-00000000000b"
    first = enqueue(id=own)
    assert str(first.id) == own
    hit = enqueue(id=other)
    assert (hit.id, hit.created) == (first.id, False)
    with pytest.raises(djqueue.DuplicateJob):
        enqueue("another", id=own)
    assert rows(Job).count() == 1


@pytest.mark.parametrize("state", ["pending", "scheduled", "claimed"])
def test_a_dedup_hit_with_an_own_id_writes_no_kv(database, state):
    first = enqueue(dedup_until="done", delay=60 if state == "scheduled" else None)
    if state == "claimed":
        claim_one()
    hit = enqueue(id="0198c9b4-0000-7000-8000-00000000000b", kv={"written": 1})
    assert (hit.id, hit.created) == (first.id, False)
    assert not rows(KV).exists()


@pytest.mark.databases(*WITH_ROW_LOCKS)
def test_a_dedup_hit_with_an_own_id_keeps_the_job_unclaimed_until_the_transaction_ends(database):
    first = enqueue()
    with transaction.atomic(using=database):
        assert enqueue(id="0198c9b4-0000-7000-8000-00000000000b").created is False
        assert in_thread(djqueue.Queue("default").claim) == []
    assert claim_one().id == first.id
