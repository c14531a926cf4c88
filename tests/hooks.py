"""Functions for AROUND and HEADERS, and the tasks that show what they did."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

from django.utils import translation

import djqueue
from djqueue import kv

seen: list[Any] = []  # what happened, in order
tenant_of = ContextVar("tenant_of", default="nobody")
NOT_CALLABLE = 5


@contextmanager
def outer(job: Any) -> Iterator[None]:
    seen.append(("enter outer", job.task, djqueue.current_job() is job))
    try:
        yield
    except BaseException as error:
        seen.append(("outer saw", type(error).__name__))
        raise
    finally:
        seen.append("leave outer")


@contextmanager
def inner(job: Any) -> Iterator[None]:
    seen.append("enter inner")
    yield
    seen.append("leave inner")


@contextmanager
def tenant(job: Any) -> Iterator[None]:
    """Uses the database and context variables, as the most common hook does."""
    token = tenant_of.set(kv.get("tenant") or "")
    with translation.override("de"):
        yield
    tenant_of.reset(token)
    seen.append(("left", tenant_of.get(), threading.current_thread() is not threading.main_thread()))


@asynccontextmanager
async def asynchronous(job: Any) -> AsyncIterator[None]:
    await asyncio.sleep(0)
    seen.append("enter asynchronous")
    yield
    seen.append("leave asynchronous")


class suppressing:  # noqa: N801
    def __init__(self, job: Any) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *raised: object) -> bool:
        return True


@contextmanager
def fails_on_entering(job: Any) -> Iterator[None]:
    raise LookupError("no such tenant")
    yield


@contextmanager
def fails_on_leaving(job: Any) -> Iterator[None]:
    yield
    raise LookupError("cannot leave")


@contextmanager
def snoozes(job: Any) -> Iterator[None]:
    raise djqueue.Snooze(60)
    yield


def fails(job: Any) -> None:
    raise LookupError("hook failed")


def without_decorator(job: Any) -> Iterator[None]:
    yield


async def coroutine(job: Any) -> None: ...


def nothing(job: Any) -> None: ...


@contextmanager
def slow(job: Any) -> Iterator[None]:
    for _ in range(100):
        threading.Event().wait(0.01)
    yield


entering, may_enter = threading.Event(), threading.Event()


@contextmanager
def waits(job: Any) -> Iterator[None]:
    entering.set()
    may_enter.wait(10)
    try:
        yield
    finally:
        seen.append("left after all")


def request_id(task_name: str) -> dict[str, Any]:
    return {"request_id": tenant_of.get(), "task": task_name}


def counter(task_name: str) -> dict[str, Any]:
    seen.append(task_name)
    return {"number": len(seen), "task": "overridden"}


def no_headers(task_name: str) -> Any:
    return [1]


def failing_headers(task_name: str) -> dict[str, Any]:
    raise KeyError("request")


def unstorable_headers(task_name: str) -> dict[str, Any]:
    return {"when": {1, 2}}


def report() -> list[str]:
    seen.append("task")
    return [tenant_of.get(), translation.get_language() or ""]


@djqueue.task
def plain(fail: str = "") -> list[str]:
    found = report()
    if fail:
        raise ValueError(fail)
    return found


@djqueue.task
async def acoroutine(fail: str = "") -> list[str]:
    await asyncio.sleep(0)
    found = report()
    if fail:
        raise ValueError(fail)
    return found


@djqueue.task
async def aforever() -> None:
    seen.append("task")
    await asyncio.sleep(60)
