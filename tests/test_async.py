"""Every blocking call has its twin, usable from an event loop without holding it up."""

from __future__ import annotations

import asyncio
import inspect
import re
import time

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections, transaction

import djqueue
from djqueue import call, current, kv, maintenance, progress, schedules, testing
from djqueue import jobs as handle
from djqueue.models import Job
from djqueue.waiting.wait import wait_for
from tests.app.models import Place
from tests.app.tasks import add
from tests.factories import DeadJobFactory
from tests.tools import claim_one, in_thread, rows

BLOCKING = {
    djqueue: [
        "enqueue",
        "enqueue_many",
        "get_job",
        "explain",
        "estimate",
        "cancel",
        "wait",
        "wait_for_jobs",
        "requeue",
        "queues",
        "stats",
        "reschedule",
    ],
    djqueue.Task: ["enqueue", "enqueue_many", "delay"],
    djqueue.Queue: ["claim", "claim_wait", "stats", "dead_jobs", "clear_dead", "pause", "resume"],
    djqueue.ClaimedJob: ["ack", "nack", "dead_letter", "snooze", "release", "renew", "progress", "wait_for_cancel"],
    current.CurrentJob: ["wait_for_cancel"],
    handle.JobHandle: ["status", "wait", "cancel", "job"],
    kv: ["get", "set", "delete", "compare_and_set"],
    maintenance: ["reap", "promote", "sweep_done", "sweep_dead", "sweep_kv", "roll_up", "fire_schedules"],
    schedules: ["create", "update", "delete", "enable", "disable", "run_now", "synchronise", "seconds_until_next"],
    progress: ["status"],
    testing: ["run_pending", "advance", "assert_enqueued", "assert_not_enqueued"],
}


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in BLOCKING.items() for name in names])
def test_every_blocking_call_has_an_async_version(owner, name):
    twin = getattr(owner, {"wait": "await_"}.get(name, f"a{name}"))
    assert inspect.iscoroutinefunction(twin)
    assert list(inspect.signature(twin).parameters) == list(inspect.signature(getattr(owner, name)).parameters)


SPELLED = {
    "await task.aenqueue(...)": lambda handle: add.enqueue(1),
    "await task.aenqueue_many(...)": lambda handle: add.enqueue_many([call(1)]),
    "await task.adelay(...)": lambda handle: add.delay(1),
    "await djqueue.aenqueue(...)": lambda handle: djqueue.enqueue("tests.app.tasks.add", [1]),
    "await djqueue.aenqueue_many(...)": lambda handle: djqueue.enqueue_many([add.call(1)]),
    "await djqueue.aget_job(...)": lambda handle: djqueue.get_job(handle.id),
    "await djqueue.aexplain(...)": lambda handle: djqueue.explain(handle.id),
    "await djqueue.aestimate(...)": lambda handle: djqueue.estimate(handle.id),
    "await djqueue.acancel(...)": lambda handle: djqueue.cancel(handle.id),
    "await djqueue.arequeue(...)": lambda handle: djqueue.requeue(handle.id),
    "await djqueue.await_(...)": lambda handle: djqueue.wait(handle.id, 0),
    "await djqueue.await_for_jobs(...)": lambda handle: djqueue.wait_for_jobs(0),
    "await djqueue.astats(...)": lambda handle: djqueue.stats("default"),
    "await handle.astatus(...)": lambda handle: handle.status(),
    "await handle.await_(...)": lambda handle: handle.wait(0),
    "await queue.aclaim(...)": lambda handle: djqueue.Queue("default").claim(),
    "await queue.apause(...)": lambda handle: djqueue.Queue("default").pause(),
    "await queue.apaused(...)": lambda handle: djqueue.Queue("default").paused,
    "await djqueue.kv.aset(...)": lambda handle: kv.set("a", 1),
    "await djqueue.schedules.aenable(...)": lambda handle: schedules.enable("s"),
    "await djqueue.maintenance.areap(...)": lambda handle: maintenance.reap(),
}


@pytest.mark.parametrize("spelled", SPELLED)
@pytest.mark.databases("postgresql", "sqlite", "mysql")
def test_a_blocking_call_in_async_code_names_its_async_version(database, spelled):
    handle = add.enqueue(1)

    async def block():
        SPELLED[spelled](handle)

    with pytest.raises(SynchronousOnlyOperation, match=f"async context. Use {re.escape(spelled)}"):
        async_to_sync(block)()


def test_the_methods_of_a_claimed_job_name_their_async_version(database):
    add.enqueue(1)
    job = claim_one()

    async def block():
        job.ack()

    with pytest.raises(SynchronousOnlyOperation, match=re.escape("Use await job.aack(...).")):
        async_to_sync(block)()
    job.ack()


def test_model_instances_of_a_claimed_job_are_loaded_in_async_code(database):
    place = Place.objects.using(database).create(name="x")
    add.enqueue(place)
    job = claim_one()

    async def read():
        with pytest.raises(SynchronousOnlyOperation, match=re.escape("Use await job.aload(...).")):
            job.args  # noqa: B018
        await job.aload()
        return job.args

    assert async_to_sync(read)() == [place]
    job.ack()


def test_a_project_that_allows_it_may_block_in_async_code(database, monkeypatch):
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")

    async def block():
        try:
            return kv.get("a", 5)
        finally:
            connections.close_all()  # of the thread of the event loop

    assert async_to_sync(block)() == 5


def test_the_whole_life_of_a_job_in_async_code(database):
    async def live() -> None:
        first = await add.aenqueue(1, b=2)
        more = await add.aenqueue_many([call(2), call(3)])
        named = await djqueue.aenqueue("tests.app.tasks.add", args=[4])
        mixed = await djqueue.aenqueue_many([add.call(5)])
        assert await first.astatus() == "pending"
        assert (await djqueue.astats("default")).pending == 5
        queue = djqueue.Queue("default")
        jobs = await queue.aclaim(4)
        assert [job.id for job in jobs] == [first.id, more[0].id, more[1].id, named.id]
        await jobs[0].aprogress(1, 2)
        await jobs[0].arenew(60)
        await jobs[0].aack("result")
        await jobs[1].anack("boom", delay=60)
        await jobs[2].adead_letter("never")
        await jobs[3].arelease()
        assert (await first.ajob()).result == "result"
        assert await mixed[0].acancel() is djqueue.CancelOutcome.REMOVED
        assert await djqueue.acancel(named.id) is djqueue.CancelOutcome.REMOVED
        assert [job.id for job in await queue.adead_jobs()] == [more[1].id]
        assert (await djqueue.arequeue(more[1].id)).status == "pending"
        assert await djqueue.areschedule(more[1].id, priority=1)
        await queue.apause()
        assert await queue.aclaim() == []
        await queue.aresume()
        assert await djqueue.await_for_jobs(60) is True
        [job] = await queue.aclaim_wait(60)
        await job.asnooze(60)
        assert (await djqueue.aget_job(job.id)).status == "scheduled"
        assert await djqueue.aqueues() == ["default"]
        assert await maintenance.apromote() == await maintenance.areap() == 0
        assert await maintenance.asweep_done(0) >= 1
        await kv.aset("k", 1)
        assert await kv.acompare_and_set("k", 1, 2)
        assert await kv.aget("k") == 2
        assert await kv.adelete("k")

    async_to_sync(live)()


def test_waiting_does_not_block_the_event_loop(database, configure):
    """While one waits, others of the loop, and synchronous code of the same request, go on."""
    configure(POLL_INTERVAL=0.05)

    async def scene() -> None:
        handle = await add.aenqueue(1)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.005)
                ticks += 1

        ticking = asyncio.create_task(tick())
        waits = [asyncio.create_task(handle.await_(60)) for _ in range(50)]
        claiming = asyncio.create_task(djqueue.Queue("other").aclaim_wait(60))
        while ticks < 20:  # for ever, if a wait held up the loop
            await asyncio.sleep(0.005)
        assert not any(wait.done() for wait in [*waits, claiming])
        await add.using(queue="other").aenqueue(2)
        [job] = await djqueue.Queue("default").aclaim()
        await job.aack("end")
        outcomes = await asyncio.gather(*waits)
        assert all(outcome.record.result == "end" for outcome in outcomes)
        assert len(await claiming) == 1
        ticking.cancel()

    async_to_sync(scene)()


def test_async_waits_return_the_same_outcomes_as_sync_waits(database):
    async def scene() -> None:
        handle = await add.aenqueue(1)
        assert (await handle.await_(0)).timed_out
        assert (await handle.await_(0.05)).timed_out
        assert (await djqueue.await_("malformed")).not_found
        assert await djqueue.Queue("none").aclaim_wait(0.05) == []
        [job] = await djqueue.Queue("default").aclaim()
        assert await djqueue.await_for_jobs(0.05) is False
        await job.aack()
        assert (await djqueue.await_(handle.id, 0)).completed

    async_to_sync(scene)()


def test_an_async_enqueue_is_part_of_the_transaction_around_it(database):
    with transaction.atomic(using=database):
        async_to_sync(add.aenqueue)(1)
        assert rows(Job).count() == 1
        transaction.set_rollback(True, using=database)
    assert rows(Job).count() == 0


def test_waiting_inside_a_transaction_is_refused_in_async_code_too(database):
    with transaction.atomic(using=database):
        handle = add.enqueue(1)
        with pytest.raises(djqueue.WaitInTransaction):
            async_to_sync(handle.await_)(1)


def test_a_cancelled_wait_leaves_no_waiter_behind(database):
    from djqueue.waiting.listener import listener

    async def scene() -> None:
        handle = await add.aenqueue(1)
        waiting = asyncio.create_task(handle.await_(30))
        deadline = time.monotonic() + 60
        while handle.id not in listener().waiters and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert handle.id not in listener().waiters

    async_to_sync(scene)()


def test_async_versions_share_the_thread_of_synchronous_code(database):
    """So a requeue from an async view is part of its ATOMIC_REQUESTS transaction."""
    row = DeadJobFactory()

    async def view() -> None:
        await djqueue.arequeue(row.pk)
        assert await sync_to_async(lambda: djqueue.get_job(row.pk).status)() == "pending"

    with transaction.atomic(using=database):
        async_to_sync(view)()
        if database != "sqlite":
            assert in_thread(djqueue.get_job, row.pk).status == "dead"
    assert claim_one().id == row.pk


@pytest.mark.parametrize("ticks", range(5))
def test_a_cancel_at_the_same_time_as_a_wake_up_is_not_lost(ticks):
    """However far the bell's own waking has come."""

    async def scene() -> None:
        bell = asyncio.Event()
        waiting = asyncio.create_task(wait_for(bell, 30))
        await asyncio.sleep(0.01)
        bell.set()
        for _ in range(ticks):
            await asyncio.sleep(0)
        if waiting.cancel():
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(scene())
