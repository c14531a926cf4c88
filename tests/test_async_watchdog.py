"""No public call holds up the event loop: a watchdog makes every statement wait until the loop has answered."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections
from django.utils.functional import cached_property

import djqueue
from djqueue import call, kv, limits, maintenance, schedules, testing
from djqueue.core import registry
from djqueue.core.tags import ModelReference
from djqueue.current import CurrentJob
from djqueue.worker.process.in_hand import Holding
from tests.app.models import Place
from tests.app.tasks import add

QUEUE = "watched"
numbers = count()
OWNERS: dict[str, Any] = {
    "djqueue": djqueue,
    "Task": djqueue.Task,
    "JobHandle": djqueue.JobHandle,
    "Queue": djqueue.Queue,
    "ClaimedJob": djqueue.ClaimedJob,
    "CurrentJob": CurrentJob,
    "ModelReference": ModelReference,
    "kv": kv,
    "limits": limits,
    "schedules": schedules,
    "maintenance": maintenance,
    "testing": testing,
}
# Calls and properties that use neither the database nor a wait.
IMMEDIATE = {
    "djqueue.call",
    "djqueue.current_job",
    "djqueue.schedule",
    "djqueue.task",
    "Task.call",
    "Task.using",
    "Queue.lease",
    "ClaimedJob.claimed_at",
    "ClaimedJob.elapsed",
    "ClaimedJob.enqueued_at",
    "ClaimedJob.headers",
    "ClaimedJob.last_error",
    "ClaimedJob.lease_expires_at",
    "ClaimedJob.now",
    "ClaimedJob.raw_args",
    "ClaimedJob.priority",
    "ClaimedJob.raw_kwargs",
    "ClaimedJob.run_at",
    "ClaimedJob.slot",
    "ClaimedJob.waited",
    "CurrentJob.attempt",
    "CurrentJob.cancel_requested",
    "CurrentJob.headers",
    "CurrentJob.id",
    "CurrentJob.max_attempts",
    "CurrentJob.progress",
    "CurrentJob.queue",
    "CurrentJob.raise_if_cancelled",
    "CurrentJob.schedule",
    "CurrentJob.slot",
    "CurrentJob.task",
    "schedules.declarations",
    "schedules.problems",
    "schedules.schedule",
    "schedules.validate",
    "testing.capture_jobs",
    "testing.worker",  # starts threads and waits for them: for a fixture, not for a coroutine
}
TWINS = {"wait": "await_", "args": "aload", "kwargs": "aload"}

Call = Callable[[], Awaitable[Any]]


def public(owner: Any) -> dict[str, Any]:
    """Return the functions, methods and properties that a user may use."""
    names = getattr(owner, "__all__", None) or [name for name in vars(owner) if not name.startswith("_")]
    members = {name: inspect.getattr_static(owner, name) for name in names}
    owner_module = owner.__module__ if inspect.isclass(owner) else owner.__name__
    return {
        name: member
        for name, member in members.items()
        if (inspect.isfunction(member) and (hasattr(owner, "__all__") or member.__module__ == owner_module))
        or isinstance(member, property | cached_property)
    }


def functions(*, asynchronous: bool) -> set[str]:
    return {
        f"{place}.{name}"
        for place, owner in OWNERS.items()
        for name, member in public(owner).items()
        if inspect.iscoroutinefunction(member) is asynchronous
    }


class Watchdog(threading.Thread):
    """Pings the loop all the time, and lets no statement proceed before the loop has answered.

    Delays are counted in turns of this thread: a busy machine delays it as much as the loop.
    """

    TURN = 0.01
    MOST_TURNS = 50

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(daemon=True)
        self.loop = loop
        self.loop_thread = threading.get_ident()
        self.stopping = threading.Event()
        self.longest = 0
        self.statements = 0
        self.problems: list[str] = []

    def run(self) -> None:
        while not self.stopping.wait(self.TURN):
            self.ping()

    def ping(self) -> int:
        """Return how many turns the loop took to answer."""
        answered = threading.Event()
        self.loop.call_soon_threadsafe(answered.set)
        turns = 0
        while not answered.wait(self.TURN) and turns <= 2 * self.MOST_TURNS and not self.stopping.is_set():
            turns += 1
            self.longest = max(self.longest, turns)
        return turns

    def hold(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        """Run a statement after the loop has answered twice: once would do if it was called in between."""
        self.statements += 1
        if threading.get_ident() == self.loop_thread:
            self.problems.append(f"in the thread of the loop: {sql:.80}")
        elif max(self.ping(), self.ping()) > self.MOST_TURNS:
            self.problems.append(f"the loop waits for: {sql:.80}")
        return execute(sql, params, many, context)


@contextmanager
def watched(watchdog: Watchdog) -> Iterator[None]:
    watchdog.longest, watchdog.statements = 0, 0
    yield
    if watchdog.longest > watchdog.MOST_TURNS:
        watchdog.problems.append(f"the loop did not answer for {watchdog.longest} turns")


def watch(database: str, calls: dict[str, Call]) -> dict[str, list[str]]:
    """Make the calls one after the other in an event loop; return what the watchdog found, by call."""
    found: dict[str, list[str]] = {}

    async def scene() -> None:
        watchdog = Watchdog(asyncio.get_running_loop())
        connection = await sync_to_async(lambda: connections[database])()
        connection.execute_wrappers.append(watchdog.hold)
        watchdog.start()
        try:
            for name, make in calls.items():
                watchdog.problems = []
                with watched(watchdog):
                    await make()
                if not watchdog.statements and not name.startswith(WITHOUT_STATEMENT):
                    watchdog.problems.append("no statement was sent")
                if watchdog.problems:
                    found[name] = watchdog.problems
        finally:
            connection.execute_wrappers.remove(watchdog.hold)
            watchdog.stopping.set()
            await sync_to_async(watchdog.join)()

    async_to_sync(scene)()
    return found


async def claimed(task: Any = add, *args: object) -> djqueue.ClaimedJob:
    queue = f"{QUEUE}-{next(numbers)}"
    await task.using(queue=queue).aenqueue(*args or [1])
    [job] = await djqueue.Queue(queue).aclaim()
    return job


async def dead() -> djqueue.ClaimedJob:
    job = await claimed()
    await job.adead_letter("never")
    return job


async def done() -> djqueue.ClaimedJob:
    job = await claimed()
    await job.aack()
    return job


async def handle() -> djqueue.JobHandle:
    return await add.using(queue=QUEUE).aenqueue(1)


async def place() -> Place:
    return await Place.objects.using(djqueue.conf.config().database).acreate(name="x")


async def loaded() -> None:
    job = await claimed(add, await place())
    await job.aload()
    assert isinstance(job.args[0], Place)


async def referenced() -> None:
    row = await place()
    assert await ModelReference("app.Place", row._state.db, row.pk).aget() == row


async def after_a_moment(waiting: Awaitable[Any], act: Call) -> Any:
    """Wait for something that happens only if the loop is free to make it happen."""
    task = asyncio.ensure_future(waiting)
    await asyncio.sleep(0.05)
    assert not task.done()
    await act()
    return await task


async def waited_for(wait: Callable[[djqueue.JobHandle], Awaitable[djqueue.WaitOutcome]]) -> None:
    found = await add.using(queue="waited").aenqueue(1)
    [job] = await djqueue.Queue("waited").aclaim()
    assert (await after_a_moment(wait(found), job.aack)).completed


async def waited_for_jobs(wait: Callable[[], Awaitable[Any]]) -> None:
    assert await after_a_moment(wait(), add.using(queue="waited").aenqueue)
    [job] = await djqueue.Queue("waited").aclaim() or [None]
    if job is not None:
        await job.aack()


async def waited_for_cancel() -> None:
    job = await claimed()
    assert await after_a_moment(job.await_for_cancel(30), lambda: djqueue.acancel(job.id))


async def waited_for_own_cancel() -> None:
    holding = Holding(await claimed())

    async def request() -> None:
        holding.cancel_requested = True
        holding.wake_waiters()

    assert await after_a_moment(CurrentJob(holding).await_for_cancel(30), request)


async def create_schedule(name: str = "s") -> None:
    await schedules.adelete(name)
    await schedules.acreate(name, task=add, every=3600)


async def with_schedule(use: Callable[[str], Awaitable[Any]]) -> None:
    await create_schedule()
    await use("s")


async def then(make: Call, use: Callable[[Any], Awaitable[Any]]) -> None:
    await use(await make())


CALLS: dict[str, Call] = {
    "djqueue.await_for_jobs": lambda: waited_for_jobs(lambda: djqueue.await_for_jobs(30)),  # first: no other job exists
    "testing.arun_pending": lambda: then(handle, lambda job: testing.arun_pending()),
    "testing.aadvance": lambda: then(handle, lambda job: testing.aadvance(60)),
    "testing.aassert_enqueued": lambda: testing.aassert_enqueued(add, times=3),
    "testing.aassert_not_enqueued": lambda: testing.aassert_not_enqueued("other"),
    "djqueue.apublish": lambda: djqueue.apublish("watched", 1),
    "djqueue.aenqueue": lambda: djqueue.aenqueue(add.name, [1]),
    "djqueue.aenqueue_many": lambda: djqueue.aenqueue_many([add.call(1), add.call(2)]),
    "djqueue.aget_job": lambda: then(handle, djqueue.aget_job),
    "djqueue.aexplain": lambda: then(handle, djqueue.aexplain),
    "djqueue.aestimate": lambda: then(handle, djqueue.aestimate),
    "djqueue.acancel": lambda: then(handle, djqueue.acancel),
    "djqueue.arequeue": lambda: then(dead, djqueue.arequeue),
    "djqueue.aenqueue_again": lambda: then(done, djqueue.aenqueue_again),
    "djqueue.areschedule": lambda: then(handle, lambda job: djqueue.areschedule(job, priority=1)),
    "djqueue.await_": lambda: waited_for(lambda job: djqueue.await_(job.id, 30)),
    "djqueue.aqueues": djqueue.aqueues,
    "djqueue.astats": lambda: djqueue.astats(QUEUE),
    "Task.aenqueue": lambda: add.using(delay=5, dedup_key="a", kv={"a": 1}).aenqueue(1),
    "Task.adelay": lambda: add.adelay(1),
    "Task.aenqueue_many": lambda: add.aenqueue_many(call(n) for n in range(3000)),
    "JobHandle.ajob": lambda: then(handle, lambda job: job.ajob()),
    "JobHandle.astatus": lambda: then(handle, lambda job: job.astatus()),
    "JobHandle.acancel": lambda: then(handle, lambda job: job.acancel()),
    "JobHandle.await_": lambda: waited_for(lambda job: job.await_(30)),
    "Queue.aclaim": claimed,
    "Queue.aclaim_wait": lambda: waited_for_jobs(lambda: djqueue.Queue("waited").aclaim_wait(30)),
    "Queue.astats": lambda: djqueue.Queue(QUEUE).astats(),
    "Queue.adead_jobs": lambda: djqueue.Queue(QUEUE).adead_jobs(),
    "Queue.aclear_dead": lambda: djqueue.Queue(QUEUE).aclear_dead(),
    "Queue.apause": lambda: djqueue.Queue("other").apause(),
    "Queue.apaused": lambda: djqueue.Queue("other").apaused(),
    "Queue.aresume": lambda: djqueue.Queue("other").aresume(),
    "ClaimedJob.aack": lambda: then(claimed, lambda job: job.aack({"a": 1})),
    "ClaimedJob.anack": lambda: then(claimed, lambda job: job.anack("x", delay=60)),
    "ClaimedJob.adead_letter": dead,
    "ClaimedJob.asnooze": lambda: then(claimed, lambda job: job.asnooze(60)),
    "ClaimedJob.arelease": lambda: then(claimed, lambda job: job.arelease()),
    "ClaimedJob.arenew": lambda: then(claimed, lambda job: job.arenew(60)),
    "ClaimedJob.aprogress": lambda: then(claimed, lambda job: job.aprogress(1, 2)),
    "ClaimedJob.await_for_cancel": waited_for_cancel,
    "ClaimedJob.aload": loaded,
    "CurrentJob.await_for_cancel": waited_for_own_cancel,
    "ModelReference.aget": referenced,
    "kv.aget": lambda: kv.aget("a"),
    "kv.aset": lambda: kv.aset("a", 1, expires_in=60),
    "kv.adelete": lambda: kv.adelete("a"),
    "limits.aset": lambda: limits.aset("a", concurrency=1),
    "limits.aclear": lambda: limits.aclear("a"),
    "limits.aget": lambda: limits.aget("a"),
    "limits.ahold": lambda: limits.ahold("a", 1),
    "limits.arelease": lambda: limits.arelease("a"),
    "kv.acompare_and_set": lambda: kv.acompare_and_set("a", None, 1),
    "schedules.acreate": create_schedule,
    "schedules.aupdate": lambda: with_schedule(lambda name: schedules.aupdate(name, every=60)),
    "schedules.aenable": lambda: with_schedule(schedules.aenable),
    "schedules.adisable": lambda: with_schedule(schedules.adisable),
    "schedules.adelete": lambda: with_schedule(schedules.adelete),
    "schedules.arun_now": lambda: with_schedule(schedules.arun_now),
    "schedules.asynchronise": schedules.asynchronise,
    "schedules.aseconds_until_next": lambda: with_schedule(lambda name: schedules.aseconds_until_next()),
    "maintenance.areap": maintenance.areap,
    "maintenance.apromote": maintenance.apromote,
    "maintenance.asweep_done": maintenance.asweep_done,
    "maintenance.asweep_dead": maintenance.asweep_dead,
    "maintenance.asweep_kv": maintenance.asweep_kv,
    "maintenance.asweep_limits": maintenance.asweep_limits,
    "maintenance.aadmit": maintenance.aadmit,
    "maintenance.aroll_up": maintenance.aroll_up,
    "maintenance.afire_schedules": maintenance.afire_schedules,
}
WITHOUT_STATEMENT = ("blocked",)  # the calls of the test of the watchdog itself


def test_every_async_function_is_watched():
    assert functions(asynchronous=True) == set(CALLS)


def test_every_blocking_function_has_an_async_variant():
    for name in functions(asynchronous=False) - IMMEDIATE:
        place, _, function = name.rpartition(".")
        twin = TWINS.get(function, f"a{function}")
        assert inspect.iscoroutinefunction(getattr(OWNERS[place], twin, None)), name
    assert functions(asynchronous=False) >= IMMEDIATE


@pytest.mark.databases("postgresql", "sqlite", "mysql")
def test_no_call_holds_up_the_event_loop(database, configure, monkeypatch):
    configure(POLL_INTERVAL=0.05)
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))
    djqueue.task(name="subscriber", topics=["watched"])(lambda value: value)
    try:
        assert watch(database, CALLS) == {}
    finally:
        Place._base_manager.using(database).all().delete()


@pytest.mark.databases("postgresql")
def test_the_watchdog_finds_calls_that_hold_up_the_event_loop(database):
    async def sleeps() -> None:
        time.sleep(1)

    async def waits_for_the_thread() -> None:
        """Run a statement in the thread of synchronous code, and block the loop until it has ended."""
        ended = threading.Event()
        running = asyncio.ensure_future(sync_to_async(lambda: (kv.get("a"), ended.set()))())
        await asyncio.sleep(0)
        ended.wait(10)
        await running

    async def queries() -> None:
        with pytest.raises(SynchronousOnlyOperation):
            kv.get("a")

    found = watch(database, {"blocked.sleeps": sleeps, "blocked.waits": waits_for_the_thread, "queries": queries})
    assert found["blocked.sleeps"][0].startswith("the loop did not answer for ")
    assert any(problem.startswith("the loop waits for: SELECT") for problem in found["blocked.waits"])
    assert found["queries"] == ["no statement was sent"]


def test_every_immediate_property_and_call_makes_no_query(database):
    add.enqueue(1)
    [job] = djqueue.Queue("default").claim()
    holding = Holding(job)

    async def use() -> None:
        current = CurrentJob(holding)
        current.progress(1, 2)
        current.raise_if_cancelled()
        assert (job.headers, current.headers, current.cancel_requested) == ({}, {}, False)
        assert (job.raw_args, job.raw_kwargs, job.args, job.kwargs) == ("[1]", "{}", [1], {})
        assert job.elapsed >= 0 <= job.waited
        assert job.now() >= job.claimed_at
        assert djqueue.Queue("default").lease == 30
        assert add.using(delay=5).call(1).task == add.name
        assert schedules.problems("s", task=add, every=60) == {}
        assert schedules.validate("s", task=add, every=60).every == 60
        assert schedules.declarations() is not None

    async_to_sync(use)()
    job.ack()
