"""Wait for a job to end, or for jobs to become claimable, without holding a connection each."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async

from djqueue.durations import Duration, seconds
from djqueue.exceptions import WaitInTransaction
from djqueue.listener import Waiter, listener
from djqueue.records import WaitOutcome
from djqueue.sql import statements
from djqueue.states import TERMINAL

T = TypeVar("T")

# An in-memory SQLite database cannot be looked at by another connection: we look ourselves, so often.
OWN_POLL = 0.02
# The first look is taken whatever the timeout; a database that does not answer for so long ends the wait all the same.
FIRST_LOOK = 10.0


class Deadline:
    def __init__(self, timeout: Duration | None) -> None:
        self.started = time.monotonic()
        self.length = None if timeout is None else seconds(timeout, "timeout")

    def remaining(self, at_least: float = 0.0) -> float | None:
        """Seconds left, None for ever."""
        if self.length is None:
            return None
        return max(0.0, self.started + max(self.length, at_least) - time.monotonic())

    def is_over(self, at_least: float = 0.0) -> bool:
        return self.remaining(at_least) == 0.0


def wait(job_id: UUID, timeout: Duration | None = None) -> WaitOutcome:
    """Wait until the job is terminal; a retry does not end the wait."""
    deadline = Deadline(timeout)
    outcome = _look_from_here(job_id)
    if outcome is not None:
        return outcome
    if _is_in_memory():
        return _poll(job_id, deadline)
    bell = threading.Event()
    with listener().waiting(job_id, bell.set) as waiter:
        while (answer := _answer(waiter, deadline)) is None:
            bell.wait(deadline.remaining(0.0 if waiter.seen else FIRST_LOOK))
            bell.clear()
        return answer


async def await_(job_id: UUID, timeout: Duration | None = None) -> WaitOutcome:
    """`wait` without a thread: the listener calls the event loop."""
    deadline = Deadline(timeout)
    outcome = await sync_to_async(_look_from_here)(job_id)
    if outcome is not None:
        return outcome
    if _is_in_memory():
        return await _apoll(job_id, deadline)
    with _async_bell() as (bell, ring), listener().waiting(job_id, ring) as waiter:
        while (answer := _answer(waiter, deadline)) is None:
            await _wait_for(bell, deadline.remaining(0.0 if waiter.seen else FIRST_LOOK))
        return answer


def until(look: Callable[[], T], queue: str | None, timeout: Duration | None) -> T:
    """Look again whenever jobs of the queue may have become claimable, until there is something or the time is over."""
    deadline = Deadline(timeout)
    found = look()
    if found or deadline.is_over():
        return found
    _refuse_transaction()
    if _is_in_memory():
        while not (found := look()) and not deadline.is_over():
            time.sleep(OWN_POLL)
        return found
    bell = threading.Event()
    with listener().watching(queue, bell.set):
        while not (found := look()) and not deadline.is_over():
            bell.wait(deadline.remaining())
            bell.clear()
        return found


async def auntil(look: Callable[[], T], queue: str | None, timeout: Duration | None) -> T:
    """`until` for an event loop."""
    deadline = Deadline(timeout)
    alook: Callable[[], Awaitable[T]] = sync_to_async(look)
    found = await alook()
    if found or deadline.is_over():
        return found
    await sync_to_async(_refuse_transaction)()
    if _is_in_memory():
        while not (found := await alook()) and not deadline.is_over():
            await asyncio.sleep(OWN_POLL)
        return found
    with _async_bell() as (bell, ring), listener().watching(queue, ring):
        while not (found := await alook()) and not deadline.is_over():
            await _wait_for(bell, deadline.remaining())
        return found


@contextmanager
def _async_bell() -> Iterator[tuple[asyncio.Event, Callable[[], None]]]:
    """An event of the running loop, and the way to set it from the listener's thread."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ring() -> None:
        loop.call_soon_threadsafe(event.set)

    yield event, ring


async def _wait_for(bell: asyncio.Event, timeout: float | None) -> None:
    try:
        async with asyncio.timeout(timeout):  # wait_for of Python 3.11 loses a cancel that comes together with the bell
            await bell.wait()
    except TimeoutError:
        pass  # the caller looks at its deadline
    bell.clear()


def _answer(waiter: Waiter, deadline: Deadline) -> WaitOutcome | None:
    if waiter.outcome is not None:
        return waiter.outcome
    if waiter.error is not None and not waiter.seen:
        raise waiter.error
    if deadline.is_over(0.0 if waiter.seen else FIRST_LOOK):
        return WaitOutcome(timed_out=True, record=waiter.record)
    return None


def _look_from_here(job_id: UUID) -> WaitOutcome | None:
    """Inside a transaction only what it sees can be told: others cannot end a job that they cannot see."""
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


def _refuse_transaction() -> None:
    if statements().in_caller_transaction():
        raise WaitInTransaction("waiting for jobs inside an open transaction could never end: wait after the commit")


def _is_in_memory() -> bool:
    connection: Any = statements().connection
    return connection.vendor == "sqlite" and bool(connection.is_in_memory_db())


def _poll(job_id: UUID, deadline: Deadline) -> WaitOutcome:
    waiter = Waiter(job_id, lambda: None)
    while True:
        waiter.look(statements().get(job_id))
        if (answer := _answer(waiter, deadline)) is not None:
            return answer
        time.sleep(OWN_POLL)


async def _apoll(job_id: UUID, deadline: Deadline) -> WaitOutcome:
    waiter = Waiter(job_id, lambda: None)
    while True:
        waiter.look(await sync_to_async(lambda: statements().get(job_id))())
        if (answer := _answer(waiter, deadline)) is not None:
            return answer
        await asyncio.sleep(OWN_POLL)
