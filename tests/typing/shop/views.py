from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import djqueue
from djqueue import JobHandle, JobRecord, kv, maintenance, schedules, signals

from .models import Order
from .tasks import charge, clean, plain, send, walk


def enqueue(order: Order) -> list[JobHandle]:
    handles: list[JobHandle] = [
        send.enqueue(1, text="x"),
        send.delay(number=1),
        send.using(delay=5, queue="mail", priority=djqueue.LOW).enqueue(1),
        send.using(run_at=datetime.now(UTC) + timedelta(hours=1)).enqueue(1),
        send.using(dedup_key="1", dedup_until="claimed", headers={"user": 1}, kv={"seen": True}).enqueue(1),
        send.using(id=uuid4(), on_commit=True).using(max_attempts=1, retry=djqueue.NoRetry()).enqueue(1),
        plain.enqueue(),
        charge.using(timeout=timedelta(seconds=5), lease=60).enqueue(order, Decimal("9.90"), card="4111"),
        clean.enqueue(date(2030, 1, 1)),
        walk.enqueue([uuid4()], datetime.now(UTC)),
        djqueue.enqueue("shop.charge", [order.pk, "1.00"], {"card": ""}, delay=5, queue="money"),
        *send.enqueue_many([djqueue.call(1), djqueue.call(2, text="x").using(priority=5)]),
        *djqueue.enqueue_many([send.call(1), plain.call().using(delay=timedelta(minutes=1))]),
    ]
    return handles


def follow(handle: JobHandle) -> str:
    created: bool | None = handle.created
    job: JobRecord | None = handle.job()
    outcome: djqueue.WaitOutcome = handle.wait(timeout=5)
    if outcome.completed and outcome.record is not None:
        result: Any = outcome.record.result
        return str(result)
    if handle.status() is djqueue.Status.DEAD:
        requeued: JobRecord = djqueue.requeue(handle.id, args=[2])
        return requeued.queue
    if handle.cancel() is djqueue.CancelOutcome.NOT_FOUND:
        return str(djqueue.enqueue_again(str(handle.id)).id)
    moved: bool = djqueue.reschedule(handle.id, priority=1)
    found: djqueue.WaitOutcome = djqueue.wait(handle.id, timedelta(seconds=1))
    return f"{created} {job} {moved} {found}"


async def follow_async(order: Order) -> int:
    handle: JobHandle = await send.using(delay=5).aenqueue(1, text="x")
    later: JobHandle = await send.adelay(1)
    many: list[JobHandle] = await send.aenqueue_many([djqueue.call(1)])
    mixed: list[JobHandle] = await djqueue.aenqueue_many([send.call(1)])
    named: JobHandle = await djqueue.aenqueue("shop.charge", [order.pk], priority=5)
    status: djqueue.Status | None = await handle.astatus()
    outcome: djqueue.WaitOutcome = await later.await_(5)
    record: JobRecord | None = await djqueue.aget_job(named.id)
    cancelled: djqueue.CancelOutcome = await djqueue.acancel(named.id)
    counts: djqueue.QueueStats = await djqueue.astats("default")
    names: list[str] = await djqueue.aqueues()
    print(status, outcome, record, cancelled, names)
    return counts.pending + len(many) + len(mixed)


def consume() -> None:
    queue = djqueue.Queue("mail")
    for job in queue.claim(limit=10, lease=timedelta(seconds=30)):
        identifier: UUID = job.id
        arguments: list[Any] = job.args
        try:
            job.progress(1, 2)
            job.renew(30)
            job.ack({"sent": len(arguments)})
        except djqueue.LeaseLost:
            print(identifier)
    paused: bool = queue.paused
    dead: list[JobRecord] = queue.dead_jobs(limit=5)
    removed: int = maintenance.sweep_done(timedelta(days=1)) + queue.clear_dead()
    print(paused, dead, removed)


async def consume_async() -> None:
    for job in await djqueue.Queue("mail").aclaim_wait(5, limit=2):
        await job.aload()
        await job.anack("not now", delay=5)
    if await djqueue.await_for_jobs(1):
        promoted: int = await maintenance.apromote()
        print(promoted)


def use_kv() -> bool:
    kv.set("cursor", {"page": 1}, expires_in=timedelta(hours=1))
    page: Any = kv.get("cursor", default=None)
    return kv.compare_and_set("cursor", page, 2) and kv.delete("cursor")


def plan() -> JobHandle:
    schedules.create("hourly", task=send, cron="0 * * * *", args=[1], timezone="Europe/Berlin")
    schedules.update("hourly", every=60)
    schedules.disable("hourly")
    return schedules.run_now("hourly")


def on_dead(sender: djqueue.Task[..., Any] | None, job: JobRecord, attempt: int, **kwargs: Any) -> None:
    print(sender, job.id, attempt)


signals.job_dead_letter.connect(on_dead)


def call_directly() -> str:
    answer: str = send(1, text="x")
    return answer


async def explain(handle: JobHandle) -> float | None:
    reason: djqueue.Explanation = await djqueue.aexplain(handle.id)
    start: djqueue.Estimate = djqueue.estimate(str(handle.id))
    if reason.code == "waiting" and start.ahead is not None:
        return start.p90
    return (await djqueue.aestimate(handle.id)).p50
