from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import djqueue

from .models import Order


def report_death(job: djqueue.JobRecord, attempts: int) -> None:
    print(job.task, job.last_error, attempts)


@djqueue.task
def send(number: int, text: str = "") -> str:
    return f"{number} {text}"


@djqueue.task()
def plain() -> None: ...


@djqueue.task(
    name="shop.charge",
    queue="money",
    priority=djqueue.HIGH,
    max_attempts=5,
    retry=djqueue.Exponential(base=2, max=60),
    timeout=30,
    lease=timedelta(minutes=2),
    dedup_until="done",
    on_dead=report_death,
    sensitive=["card"],
)
def charge(order: Order, amount: Decimal, *, card: str = "") -> None:
    if amount <= 0:
        raise djqueue.PermanentFailure("nothing to charge")
    if not card:
        raise djqueue.Retry("no card yet", delay=60)


@djqueue.task(cron="0 3 * * *", retry=djqueue.NoRetry())
async def clean(before: date | None = None) -> int:
    job = djqueue.current_job()
    if await job.await_for_cancel(timeout=0.1):
        raise djqueue.Cancelled
    return job.attempt


@djqueue.task(retry=djqueue.Fixed(5))
def walk(ids: list[UUID], at: datetime) -> float:
    job = djqueue.current_job()
    for done, _ in enumerate(ids):
        job.raise_if_cancelled()
        job.progress(done, len(ids), message="walking")
    if not ids:
        raise djqueue.Snooze(timedelta(hours=1))
    return at.timestamp()


djqueue.schedule("send daily", task=send, every=timedelta(days=1), args=[1], kwargs={"text": "x"}, overlap="skip")
