"""The exact sequence of signals for every fate, after the commit and only then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

import djqueue
from djqueue import call, signals
from djqueue.core.records import JobRecord
from djqueue.lifecycle import claim as claiming
from djqueue.lifecycle import settle
from tests.app.tasks import add
from tests.factories import DeadJobFactory
from tests.tools import claim_one

NAMES = ["queued", "started", "completed", "failed", "retrying", "dead_letter", "cancelled"]


class Heard(list):
    @property
    def names(self) -> list[str]:
        return [name for name, _ in self]

    def last(self, name: str) -> dict[str, Any]:
        return [kwargs for heard, kwargs in self if heard == name][-1]


@pytest.fixture
def heard() -> Iterator[Heard]:
    log = Heard()
    receivers = {name: partial(_write, log, name) for name in NAMES}
    for name, receiver in receivers.items():
        getattr(signals, f"job_{name}").connect(receiver, weak=False)
    yield log
    for name, receiver in receivers.items():
        getattr(signals, f"job_{name}").disconnect(receiver)


def _write(log: Heard, event: str, sender: object, **kwargs: Any) -> None:
    log.append((event, {"sender": sender} | kwargs))


def test_success(database, heard):
    handle = add.using(headers={"h": 1}, priority=5).enqueue(1, b=2)
    claim_one().ack({"sum": 3})
    assert heard.names == ["queued", "started", "completed"]
    for name, attempt in (("queued", 0), ("started", 1), ("completed", 1)):
        kwargs = heard.last(name)
        assert kwargs["sender"] is add
        assert (kwargs["id"], kwargs["name"], kwargs["attempt"]) == (handle.id, "tests.app.tasks.add", attempt)
        job = kwargs["job"]
        assert isinstance(job, JobRecord)
        assert (job.id, job.args, job.kwargs, job.headers, job.priority) == (handle.id, [1], {"b": 2}, {"h": 1}, 5)
    assert heard.last("completed")["result"] == {"sum": 3}
    assert [heard.last(name)["job"].status for name in ("queued", "started", "completed")] == [
        "pending",
        "claimed",
        "done",
    ]


def test_retry_then_success(database, heard):
    add.enqueue(1)
    claim_one().nack("boom", delay=0)
    claim_one().ack()
    assert heard.names == ["queued", "started", "failed", "retrying", "started", "completed"]
    assert (heard.last("failed")["attempt"], heard.last("failed")["error"]) == (1, "boom")
    retrying = heard.last("retrying")
    assert (retrying["attempt"], retrying["delay"], retrying["error"]) == (2, 0, "boom")


def test_retries_until_dead(database, heard):
    add.using(max_attempts=2).enqueue(1)
    claim_one().nack("one", delay=0)
    claim_one().nack("two")
    assert heard.names == ["queued", "started", "failed", "retrying", "started", "failed", "dead_letter"]
    dead = heard.last("dead_letter")
    assert (dead["attempt"], dead["error"], dead["job"].status) == (2, "two", "dead")


def test_permanent_failure(database, heard):
    add.enqueue(1)
    claim_one().dead_letter("never")
    assert heard.names == ["queued", "started", "failed", "dead_letter"]


@pytest.mark.parametrize("act", [lambda job: job.snooze(0), lambda job: job.release()])
def test_snooze_and_release_send_nothing(database, heard, act):
    add.enqueue(1)
    act(claim_one())
    assert heard.names == ["queued", "started"]


def test_cancel_of_a_waiting_job(database, heard):
    handle = add.enqueue(1)
    handle.cancel()
    assert heard.names == ["queued", "cancelled"]
    assert (heard.last("cancelled")["id"], heard.last("cancelled")["attempt"]) == (handle.id, 0)
    assert heard.last("cancelled")["job"].status == "cancelled"


def test_cancel_of_a_claimed_job_is_sent_when_it_ends(database, heard):
    handle = add.enqueue(1)
    job = claim_one()
    handle.cancel()
    assert heard.names == ["queued", "started"]
    job.nack("gave up")
    assert heard.names == ["queued", "started", "cancelled"]
    assert (heard.last("cancelled")["error"], heard.last("cancelled")["attempt"]) == ("gave up", 1)


def test_a_claimed_job_that_ignores_a_cancel_sends_completed(database, heard):
    handle = add.enqueue(1)
    job = claim_one()
    handle.cancel()
    job.ack()
    assert heard.names == ["queued", "started", "completed"]


def test_cancel_of_a_missing_job_sends_nothing(database, heard):
    djqueue.cancel(DeadJobFactory().pk)
    assert heard.names == []


def test_reap(database, heard):
    add.using(max_attempts=2).enqueue(1)
    claim_one(lease=0)
    djqueue.maintenance.reap()
    assert heard.names == ["queued", "started", "failed", "retrying"]
    assert (heard.last("retrying")["attempt"], heard.last("retrying")["delay"]) == (2, 0)
    claim_one(lease=0)
    djqueue.maintenance.reap()
    assert heard.names[4:] == ["started", "failed", "dead_letter"]
    assert heard.last("dead_letter")["error"] == "lease expired"
    assert heard.last("dead_letter")["sender"] is add


def test_a_reap_that_returns_the_attempt_sends_nothing(database, heard):
    add.enqueue(1)
    claiming.claim({"default": 1}, lease=0, begin=0)
    djqueue.maintenance.reap()
    assert heard.names == ["queued"]


def test_a_dead_job_of_an_unknown_task_sends_dead_letter_only(database, heard):
    djqueue.enqueue("nobody.knows")
    job = claim_one()
    settle.settle_one(job, settle.dead_letter(job, "no task registered", unknown=True))
    assert heard.names == ["queued", "started", "dead_letter"]
    assert heard.last("dead_letter")["sender"] is None
    assert heard.last("dead_letter")["name"] == "nobody.knows"


def test_a_dedup_hit_sends_nothing(database, heard):
    add.using(dedup_key="k").enqueue(1)
    add.using(dedup_key="k").enqueue(1)
    add.enqueue_many([call(1).using(dedup_key="k")])
    assert heard.names == ["queued"]


def test_a_batch_sends_one_for_each_new_job(database, heard):
    handles = djqueue.enqueue_many([add.call(1), add.call(2).using(dedup_key="k"), add.call(3).using(dedup_key="k")])
    assert [kwargs["id"] for _, kwargs in heard] == [handles[0].id, handles[1].id]


def test_requeue_sends_queued(database, heard):
    row = DeadJobFactory()
    djqueue.requeue(row.pk)
    assert heard.names == ["queued"]
    assert (heard.last("queued")["id"], heard.last("queued")["attempt"]) == (row.pk, 0)


def test_a_lost_lease_sends_nothing(database, heard):
    add.enqueue(1)
    job = claim_one()
    job.ack()
    before = list(heard.names)
    with pytest.raises(djqueue.LeaseLost):
        job.nack("late")
    assert heard.names == before


def test_signals_wait_for_the_commit(database, heard):
    with transaction.atomic(using=database):
        add.enqueue(1)
        add.enqueue_many([call(2)])
        assert heard.names == []
    assert heard.names == ["queued", "queued"]
    with transaction.atomic(using=database):
        claim_one().ack()
        assert heard.names == ["queued", "queued"]
    assert heard.names == ["queued", "queued", "started", "completed"]


def test_nothing_is_sent_after_a_rollback(database, heard):
    dead = DeadJobFactory().pk
    waiting = add.enqueue(1)
    del heard[:]
    with transaction.atomic(using=database):
        add.enqueue(2)
        add.enqueue_many([call(3)])
        waiting.cancel()
        djqueue.requeue(dead)
        claim_one().ack()
        transaction.set_rollback(True, using=database)
    assert heard.names == []


def test_a_rolled_back_savepoint_suppresses_only_its_own_signals(database, heard):
    with transaction.atomic(using=database):
        kept = add.enqueue(1)
        with pytest.raises(RuntimeError), transaction.atomic(using=database):
            add.enqueue(2)
            raise RuntimeError
    assert [kwargs["id"] for _, kwargs in heard] == [kept.id]


def test_a_receiver_that_raises_changes_nothing(database, heard, caplog):
    def broken(**kwargs: Any) -> None:
        raise RuntimeError("broken receiver")

    for name in NAMES:
        getattr(signals, f"job_{name}").connect(broken)
    try:
        with caplog.at_level(logging.ERROR):
            handle = add.enqueue(1)
            claim_one().nack("boom", delay=0)
            claim_one().ack()
    finally:
        for name in NAMES:
            getattr(signals, f"job_{name}").disconnect(broken)
    assert handle.status() == "done"
    assert heard.names == ["queued", "started", "failed", "retrying", "started", "completed"]
    assert "broken receiver" in caplog.text


def test_the_sender_is_the_registered_task(database):
    got = []

    def receive(sender: object, **kwargs: Any) -> None:
        got.append(sender)

    signals.job_queued.connect(receive, sender=add)
    try:
        add.using(priority=3).enqueue(1)
        djqueue.enqueue("tests.app.tasks.add", args=[1])
        djqueue.enqueue("shop.charge", args=[1])
    finally:
        signals.job_queued.disconnect(receive, sender=add)
    assert got == [add, add]


def test_on_dead_is_called_for_every_way_to_become_dead(database, caplog):
    deaths: list[tuple[str, int]] = []

    def bury(job: JobRecord, attempts: int) -> None:
        deaths.append((job.last_error, attempts))
        raise RuntimeError("cannot bury")

    @djqueue.task(name=f"tests.mortal.{database}", on_dead=bury)
    def mortal() -> None: ...

    mortal.using(max_attempts=1).enqueue()
    claim_one().nack("nacked")
    mortal.enqueue()
    claim_one().dead_letter("dead-lettered")
    mortal.using(max_attempts=1).enqueue()
    claim_one(lease=0)
    djqueue.maintenance.reap()
    mortal.enqueue()
    claim_one().nack("lives", delay=60)
    assert deaths == [("nacked", 1), ("dead-lettered", 1), ("lease expired", 1)]
    assert "on_dead failed" in caplog.text
    assert djqueue.stats("default").dead == 3


@pytest.mark.parametrize("kind", ["plain", "partial"])
def test_an_on_dead_that_is_a_coroutine_function_is_awaited(database, caplog, kind):
    deaths: list[tuple[str, int]] = []

    async def bury(job: JobRecord, attempts: int) -> None:
        await asyncio.sleep(0)
        deaths.append((job.last_error, attempts))
        raise RuntimeError("cannot bury")

    @djqueue.task(name=f"tests.{kind}_mortal.{database}", on_dead=bury if kind == "plain" else partial(bury))
    def mortal() -> None: ...

    mortal.enqueue()
    claim_one().dead_letter("no")
    assert deaths == [("no", 1)]
    assert "cannot bury" in caplog.text

    async def in_a_loop() -> None:
        await mortal.aenqueue()
        [job] = await djqueue.Queue("default").aclaim()
        await job.adead_letter("again")

    async_to_sync(in_a_loop)()
    assert deaths == [("no", 1), ("again", 1)]


def test_the_record_is_the_job_as_it_was(database, heard):
    """The record has what a receiver needs: the errors with their tracebacks, the workers, and the times."""
    handle = add.using(max_attempts=2, dedup_key="k", dedup_until="done").enqueue(1)
    first = claim_one()
    assert heard.last("started")["job"] == replace(handle.job(), errors=[])
    first.progress(1, 2)
    first.nack(ValueError("one"), delay=0)
    for name in ("failed", "retrying"):
        assert heard.last(name)["job"] == handle.job()
    claim_one(lease=0)
    djqueue.maintenance.reap()
    for name in ("failed", "dead_letter"):
        job = heard.last(name)["job"]
        assert job == handle.job()
        assert [error["message"] for error in job.errors] == ["one", "lease expired"]
        assert isinstance(job.status, djqueue.Status)
    djqueue.requeue(handle.id)
    assert heard.last("queued")["job"] == handle.job()
    handle.cancel()
    assert heard.last("cancelled")["job"] == handle.job()


def test_without_a_kept_row_the_record_has_what_the_worker_knows(configure, heard):
    configure(KEEP_DONE=0)
    handle = add.enqueue(1)
    claim_one().ack("fine")
    job = heard.last("completed")["job"]
    assert (job.id, job.status, job.result, job.args, job.progress) == (handle.id, "done", "fine", [1], None)


@pytest.mark.parametrize("act", [lambda job: job.nack("x"), lambda job: job.dead_letter("x")])
def test_an_unknown_task_sends_dead_letter_only_whichever_process_settles_it(database, heard, act):
    djqueue.enqueue("nobody.knows", max_attempts=1)
    act(claim_one())
    assert heard.names == ["queued", "started", "dead_letter"]


def test_with_autocommit_off_nothing_is_sent(database, heard):
    """With autocommit off, djqueue cannot know whether the transaction will be committed."""
    transaction.set_autocommit(False, using=database)
    try:
        add.enqueue(1)
        transaction.rollback(using=database)
        add.enqueue(2)
        transaction.commit(using=database)
    finally:
        transaction.set_autocommit(True, using=database)
    assert heard.names == []
    assert claim_one().args == [2]
