"""Run jobs as soon as they are enqueued, in the thread of the caller: DJQUEUE["EAGER"] and `djqueue.testing.eager`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID

from djqueue.conf import config
from djqueue.core.records import Inserted
from djqueue.exceptions import DjqueueError

DEEPEST = 50  # eager jobs inside each other

Runner = Callable[[list[UUID]], None]
_runner: Runner | None = None
_blocks = 0  # of `switched_on` that are open, in all threads
_held: ContextVar[list[UUID] | None] = ContextVar("djqueue_held_eager_jobs", default=None)
_depth: ContextVar[int] = ContextVar("djqueue_eager_depth", default=0)


def run_with(runner: Runner) -> None:
    """Set the function that runs jobs: this layer may not import the worker."""
    global _runner
    _runner = runner


def is_on() -> bool:
    """Return whether jobs run as soon as they are enqueued."""
    return _blocks > 0 or config().eager


@contextmanager
def switched_on() -> Iterator[None]:
    """Run jobs as soon as they are enqueued, in all threads, until the block ends."""
    global _blocks
    _blocks += 1
    try:
        yield
    finally:
        _blocks -= 1


@contextmanager
def held() -> Iterator[None]:
    """Run what the block enqueues at its end: inside, a transaction holds locks or may be repeated."""
    ids: list[UUID] = []
    reset = _held.set(ids)
    try:
        yield
    finally:
        _held.reset(reset)
    _run(ids)


def run(inserted: Sequence[Inserted]) -> None:
    """Run the jobs that a call has created, or let the surrounding `held` run them."""
    created = [row.id for row in inserted if row.created]
    held = _held.get()
    if held is None:
        _run(created)
    else:
        held += created


def _run(ids: list[UUID]) -> None:
    if not ids or _runner is None:
        return
    if _depth.get() >= DEEPEST:
        raise DjqueueError(
            f"{DEEPEST} eager jobs are running inside each other. Does a task enqueue itself? With a worker, such jobs "
            "run one after the other; use djqueue.testing.run_pending() to test them."
        )
    reset, reset_held = _depth.set(_depth.get() + 1), _held.set(None)
    try:
        _runner(ids)
    finally:
        _held.reset(reset_held)
        _depth.reset(reset)
