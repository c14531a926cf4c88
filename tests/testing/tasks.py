"""Tasks for the tests of the test kit."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

from asgiref.sync import sync_to_async
from django.db import IntegrityError, connections, transaction

import djqueue
from djqueue import kv
from djqueue.conf import config

MINUTE = 60


@djqueue.task
def note(text: str) -> str:
    """Append a text to the KV entry "notes", so that the order of jobs is seen and is rolled back with them."""
    kv.set("notes", [*kv.get("notes", []), text])
    return text


@djqueue.task
async def anote(text: str) -> str:
    return await sync_to_async(note.func)(text)


def notes() -> list[str]:
    return kv.get("notes", [])


class Boom(Exception):
    pass


@djqueue.task(max_attempts=3, retry=djqueue.Exponential(base=60, max=3600, jitter=0))
def fail(text: str = "boom") -> None:
    note.func(f"fail {djqueue.current_job().attempt}")
    raise Boom(text)


@djqueue.task(max_attempts=4, retry=djqueue.Exponential(base=60, max=3600, jitter=0))
def third_time_lucky() -> int:
    attempt = djqueue.current_job().attempt
    note.func(f"attempt {attempt}")
    if attempt < 3:
        raise Boom
    return attempt


@djqueue.task
def chain(count: int) -> None:
    note.func(str(count))
    if count:
        chain.enqueue(count - 1)


@djqueue.task
def for_ever() -> None:
    for_ever.enqueue()


@djqueue.task
def steer(how: str) -> None:
    match how:
        case "snooze":
            raise djqueue.Snooze(MINUTE)
        case "retry":
            raise djqueue.Retry(delay=MINUTE)
        case "permanent":
            raise djqueue.PermanentFailure("never")
        case "cancelled":
            raise djqueue.Cancelled


@djqueue.task
def nested() -> list[str]:
    """Enqueue others, and look at the current job in between."""
    mine = djqueue.current_job()
    note.enqueue("inner")
    anote.enqueue("async inner")
    assert djqueue.current_job() is mine
    note.func("outer")
    return [mine.task]


@djqueue.task
async def anested() -> str:
    mine = djqueue.current_job()
    await note.aenqueue("inner")
    await anote.aenqueue("async inner")
    assert djqueue.current_job() is mine
    await sync_to_async(note.func)("outer")
    return mine.task


@djqueue.task
def on_commit() -> None:
    with transaction.atomic(using=config().database):
        note.using(on_commit=True).enqueue("committed")
        note.func("before the commit")


@djqueue.task(max_attempts=1)
def break_transaction() -> None:
    note.func("lost")
    try:
        with connections[config().database].cursor() as cursor:
            cursor.execute("INSERT INTO djqueue_kv (no_such_column) VALUES (1)")
    except Exception as error:
        connections[config().database].needs_rollback = connections[config().database].in_atomic_block
        raise IntegrityError("broken") from error


@djqueue.task
def catch_database_error() -> None:
    with suppress(IntegrityError):
        break_transaction.func()


@djqueue.task
def report_progress() -> None:
    djqueue.current_job().progress(3, 4, "nearly")


@djqueue.task
def slot() -> Any:
    job = djqueue.current_job()
    note.func(f"slot {job.slot.isoformat()}")
    return job.slot


@djqueue.task
def typed(*values: Any, **named: Any) -> None: ...


@djqueue.task(sensitive=["password"])
def log_in(name: str, password: str) -> None: ...


@djqueue.task(timeout=0.05)
async def too_slow() -> None:
    import asyncio

    await asyncio.sleep(5)


@djqueue.task
def delete_itself() -> None:
    from djqueue.models import Job

    Job.objects.using(config().database).filter(pk=djqueue.current_job().id).delete()


VALUES = [Decimal("9.90"), timedelta(hours=1)]
