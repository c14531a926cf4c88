"""Wait for a job to finish, or for jobs to become claimable. Callers share one connection."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import connections

from djqueue.conf import config
from djqueue.core.durations import Duration, seconds
from djqueue.core.records import WaitOutcome
from djqueue.exceptions import WaitInTransaction
from djqueue.sql import statements
from djqueue.states import TERMINAL

from .listener import Waiter, listener

T = TypeVar("T")

# No other connection can read an in-memory SQLite database, so the caller polls it at this interval.
IN_MEMORY_POLL = 0.02
# The first query is made whatever the timeout; a database that does not respond within this time ends the wait.
FIRST_QUERY = 10.0


class Deadline:
    """The end of a wait; a timeout of None never ends it."""

    def __init__(self, timeout: Duration | None) -> None:
        self.started = time.monotonic()
        self.length = None if timeout is None else seconds(timeout, "timeout")

    def remaining(self, at_least: float = 0.0) -> float | None:
        """Return the seconds left; None if there is no end."""
        if self.length is None:
            return None
        return max(0.0, self.started + max(self.length, at_least) - time.monotonic())

    def remaining_up_to(self, most: float) -> float:
        """Return the seconds left, but at most `most`."""
        remaining = self.remaining()
        return most if remaining is None else min(most, remaining)

    def is_over(self, at_least: float = 0.0) -> bool:
        return self.remaining(at_least) == 0.0


def wait(job_id: UUID, timeout: Duration | None = None) -> WaitOutcome:
    """Wait until the job is done, dead or cancelled; a retry does not end the wait."""
    deadline = Deadline(timeout)
    outcome = _outcome_in_transaction(job_id)
    if outcome is not None:
        return outcome
    if _is_in_memory():
        return _poll(job_id, deadline)
    event = threading.Event()
    with listener().waiting(job_id, event.set) as waiter:
        while (answer := _answer(waiter, deadline)) is None:
            event.wait(deadline.remaining(0.0 if waiter.seen else FIRST_QUERY))
            event.clear()
        return answer


async def await_(job_id: UUID, timeout: Duration | None = None) -> WaitOutcome:
    """Async variant of `wait`: the listener wakes up the event loop."""
    deadline = Deadline(timeout)
    outcome = await sync_to_async(_outcome_in_transaction)(job_id)
    if outcome is not None:
        return outcome
    if _is_in_memory():
        return await _apoll(job_id, deadline)
    with async_event() as (event, wake), listener().waiting(job_id, wake) as waiter:
        while (answer := _answer(waiter, deadline)) is None:
            await wait_for(event, deadline.remaining(0.0 if waiter.seen else FIRST_QUERY))
        return answer


def until(look: Callable[[], T], queue: str | None, timeout: Duration | None) -> T:
    """Call `look` whenever jobs of the queue may be claimable, until it finds something or the timeout is reached."""
    deadline = Deadline(timeout)
    found = look()
    if found or deadline.is_over():
        return found
    refuse_transaction()
    if _is_in_memory():
        while not (found := look()) and not deadline.is_over():
            time.sleep(IN_MEMORY_POLL)
        return found
    event = threading.Event()
    with listener().watching(queue, event.set):
        while not (found := look()) and not deadline.is_over():
            event.wait(deadline.remaining())
            event.clear()
        return found


async def auntil(look: Callable[[], T], queue: str | None, timeout: Duration | None) -> T:
    """Async variant of `until`."""
    deadline = Deadline(timeout)
    alook: Callable[[], Awaitable[T]] = sync_to_async(look)
    found = await alook()
    if found or deadline.is_over():
        return found
    await sync_to_async(refuse_transaction)()
    if _is_in_memory():
        while not (found := await alook()) and not deadline.is_over():
            await asyncio.sleep(IN_MEMORY_POLL)
        return found
    with async_event() as (event, wake), listener().watching(queue, wake):
        while not (found := await alook()) and not deadline.is_over():
            await wait_for(event, deadline.remaining())
        return found


@contextmanager
def async_event() -> Iterator[tuple[asyncio.Event, Callable[[], None]]]:
    """Return an event of the running loop, and a function that sets it from another thread."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop was closed in the meantime
            loop.call_soon_threadsafe(event.set)

    yield event, wake


async def wait_for(event: asyncio.Event, timeout: float | None) -> None:
    try:
        async with asyncio.timeout(
            timeout
        ):  # asyncio.wait_for of Python 3.11 loses a cancellation that arrives together with the event
            await event.wait()
    except TimeoutError:
        pass  # the caller checks its deadline
    event.clear()


def _answer(waiter: Waiter, deadline: Deadline) -> WaitOutcome | None:
    if waiter.outcome is not None:
        return waiter.outcome
    if waiter.error is not None and not waiter.seen:
        raise waiter.error
    if deadline.is_over(0.0 if waiter.seen else FIRST_QUERY):
        return WaitOutcome(timed_out=True, record=waiter.record)
    return None


def _outcome_in_transaction(job_id: UUID) -> WaitOutcome | None:
    """Inside a transaction, return the outcome of a job that has finished, or raise WaitInTransaction."""
    database = statements()
    if not database.in_caller_transaction():
        return None
    record = database.get(job_id)
    if record is not None and record.status in TERMINAL:
        return WaitOutcome(completed=True, record=record)
    raise WaitInTransaction(
        f"waiting for job {job_id} inside an open transaction could never end: wait after the commit, "
        "for example in transaction.on_commit"
    )


def refuse_transaction() -> None:
    """Raise WaitInTransaction inside an open transaction."""
    if statements().in_caller_transaction():
        raise WaitInTransaction("waiting for jobs inside an open transaction could never end: wait after the commit")


def _is_in_memory() -> bool:
    connection: Any = connections[config().database]
    return connection.vendor == "sqlite" and bool(connection.is_in_memory_db())


def _poll(job_id: UUID, deadline: Deadline) -> WaitOutcome:
    waiter = Waiter(job_id, lambda: None)
    while True:
        waiter.update(statements().get(job_id))
        if (answer := _answer(waiter, deadline)) is not None:
            return answer
        time.sleep(IN_MEMORY_POLL)


async def _apoll(job_id: UUID, deadline: Deadline) -> WaitOutcome:
    waiter = Waiter(job_id, lambda: None)
    while True:
        waiter.update(await sync_to_async(lambda: statements().get(job_id))())
        if (answer := _answer(waiter, deadline)) is not None:
            return answer
        await asyncio.sleep(IN_MEMORY_POLL)
