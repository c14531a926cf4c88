from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import connections, transaction

import djqueue
from djqueue.core.records import Renew, Renewed
from djqueue.lifecycle import lease
from djqueue.sql import statements
from tests.app.tasks import add
from tests.tools import WITH_ROW_LOCKS, claim_one, database_now, in_thread, live, rows


def test_renew_extends_the_lease_from_now(database):
    add.enqueue(1)
    job = claim_one(lease=1)
    job.renew(100)
    assert timedelta(seconds=95) < job.lease_expires_at - database_now() <= timedelta(seconds=100)
    assert live(job.id).lease_expires_at == job.lease_expires_at


def test_renew_repeats_the_length_of_the_claim(database):
    add.enqueue(1)
    job = claim_one(lease=50)
    job.renew()
    assert timedelta(seconds=45) < job.lease_expires_at - database_now() <= timedelta(seconds=50)


def test_renew_reports_a_cancel_request(database):
    add.enqueue(1)
    job = claim_one()
    rows(type(live(job.id))).filter(pk=job.id).update(cancel_requested=True)
    job.renew(5)
    assert job.cancel_requested is True


def test_progress_is_kept_with_the_job(database):
    add.enqueue(1)
    job = claim_one()
    before = job.lease_expires_at
    job.progress(3, 10, "a third")
    assert djqueue.get_job(job.id).progress == {"done": 3, "total": 10, "message": "a third"}
    assert live(job.id).lease_expires_at == before
    with pytest.raises(djqueue.InvalidPayload, match="progress.message contains a NUL"):
        job.progress(1, 2, "\x00")


def test_a_new_attempt_starts_without_progress(database):
    add.enqueue(1)
    job = claim_one()
    job.progress(1, 2)
    job.release()
    assert claim_one().id == job.id
    assert djqueue.get_job(job.id).progress is None


def test_many_leases_are_renewed_at_once_and_each_is_answered(database):
    for _ in range(3):
        add.enqueue(1)
    kept, lost, started = djqueue.Queue("default").claim(3)
    lost.ack()
    answers = statements().renew(
        [
            Renew(id=kept.id, token=kept.token, lease=77),
            Renew(id=lost.id, token=lost.token, lease=77),
            Renew(id=started.id, token=started.token, lease=77, started=False, progress='{"done":1}'),
        ],
        wait=False,
    )
    assert answers[0].expires_at == live(kept.id).lease_expires_at
    assert answers[1].expires_at is None
    assert (live(started.id).started, live(started.id).progress) == (False, {"done": 1})
    assert live(kept.id).started is True


@pytest.mark.databases(*WITH_ROW_LOCKS)
def test_a_locked_row_is_skipped_and_not_taken_for_lost(database):
    for _ in range(3):
        add.enqueue(1)
    one, two, gone = djqueue.Queue("default").claim(3)
    gone.ack()
    renewals = [Renew(id=job.id, token=job.token, lease=60) for job in (one, two, gone)]
    with transaction.atomic(using=database):
        rows(type(live(one.id))).select_for_update().get(pk=one.id)
        answers = in_thread(lambda: statements().renew(renewals, wait=False))
    assert answers[0] is None
    assert answers[1].expires_at is not None
    assert answers[2].expires_at is None


@pytest.mark.databases("mysql")
def test_a_lease_is_counted_from_when_it_is_written_not_from_when_it_was_asked_for(database):
    add.enqueue(1)
    add.enqueue(2)
    job = claim_one()
    acts = {
        "renew": lambda: statements().renew([Renew(id=job.id, token=job.token, lease=10)], wait=False)[0].expires_at,
        "claim": lambda: claim_one(lease=10).lease_expires_at,
    }
    for act in acts.values():
        with ThreadPoolExecutor(1) as pool, connections[database].cursor() as cursor:
            cursor.execute("LOCK TABLES djqueue_job WRITE")
            blocked = pool.submit(closing, act)
            time.sleep(2)
            unlocked_at = database_now()
            cursor.execute("UNLOCK TABLES")
            expires_at = blocked.result()
        assert expires_at >= unlocked_at + timedelta(seconds=10)


def closing(act):
    try:
        return act()
    finally:
        connections.close_all()


def test_waiting_for_a_cancel_ends_when_it_is_requested_elsewhere(database):
    add.enqueue(1)
    job = claim_one()
    assert job.wait_for_cancel(0) is False
    assert job.wait_for_cancel(0.05) is False
    cancelling = threading.Timer(0.1, in_thread, [djqueue.cancel, job.id])
    cancelling.start()
    try:
        assert job.wait_for_cancel(10) is True
    finally:
        cancelling.join()
    assert job.cancel_requested is True


def test_waiting_for_a_cancel_of_a_lost_job_raises(database):
    add.enqueue(1)
    job = claim_one()
    job.release()
    with pytest.raises(djqueue.LeaseLost):
        job.wait_for_cancel(10)
    claim_one()
    with pytest.raises(djqueue.LeaseLost):
        job.wait_for_cancel(10)


def test_waiting_for_a_cancel_inside_a_transaction_is_refused(database):
    add.enqueue(1)
    job = claim_one()
    with transaction.atomic(using=database), pytest.raises(djqueue.WaitInTransaction):
        job.wait_for_cancel(10)


def test_waiting_for_a_cancel_does_not_block_the_event_loop(database):
    add.enqueue(1)
    job = claim_one()

    async def wait() -> bool:
        waiting = asyncio.create_task(job.await_for_cancel(10))
        await asyncio.sleep(0.05)
        await djqueue.acancel(job.id)
        return await waiting

    assert async_to_sync(wait)() is True


def test_a_claimed_job_returns_its_arguments_as_they_are_stored(database):
    add.enqueue(1.0, b="ä")
    job = claim_one()
    assert (job.raw_args, job.raw_kwargs) == ("[1.0]", '{"b":"ä"}')


@pytest.mark.parametrize("stale_first", [True, False])
def test_of_two_claims_of_one_job_the_stale_one_is_not_renewed(database, stale_first):
    add.enqueue(1, 2)
    stale = claim_one()
    stale.release()
    current = claim_one()
    claims = [stale, current] if stale_first else [current, stale]
    answers = lease.renew_many([Renew(id=job.id, token=job.token, lease=60.0) for job in claims])
    assert answers[stale.id, stale.token] == Renewed(None)
    assert answers[current.id, current.token].expires_at is not None
