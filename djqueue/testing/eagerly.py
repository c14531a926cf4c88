"""`eager()`: run jobs as soon as they are enqueued."""

from __future__ import annotations

import functools
import inspect
from contextlib import AbstractContextManager, ContextDecorator
from types import TracebackType
from typing import Any, TypeVar

from djqueue.lifecycle.eager import switched_on

F = TypeVar("F")


class eager(ContextDecorator):  # noqa: N801 - used like a function
    """Run jobs as soon as they are enqueued, in the thread that enqueues them. A context manager and a decorator.

    A job enqueued on commit runs at the commit. The exception of a failing task is raised to the enqueuer, after the
    job is settled as in production.
    """

    def __init__(self) -> None:
        self._entered: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        self._entered.append(switched_on())
        self._entered[-1].__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._entered.pop().__exit__(kind, error, traceback)

    def __call__(self, func: Any) -> Any:
        """Decorate a function or a coroutine function."""
        if not inspect.iscoroutinefunction(func):
            return super().__call__(func)

        @functools.wraps(func)
        async def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return await func(*args, **kwargs)

        return call
