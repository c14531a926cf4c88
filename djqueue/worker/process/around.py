"""Run a task within the context managers of AROUND. Only called if the list is not empty."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar, Token, copy_context
from typing import Any

from asgiref.sync import _restore_context, sync_to_async

from djqueue.core import hooks
from djqueue.current import CurrentJob
from djqueue.worker.os_process import end_if_forked

Hooks = Sequence[tuple[str, hooks.Hook]]


def call(job: CurrentJob, own_code: Callable[[], Any]) -> Any:
    """Call the task's own code within all context managers; None if one of them suppressed its exception."""
    with end_if_forked():  # a hook may fork, too
        return _call(hooks.functions(hooks.AROUND), job, own_code)


async def acall(job: CurrentJob, own_code: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Async variant of `call`, for coroutines."""
    with end_if_forked():
        return await _acall(hooks.functions(hooks.AROUND), job, own_code)


# A function that calls itself adds frames of this module alone to a traceback, which are cut off with the worker's.
def _call(rest: Hooks, job: CurrentJob, own_code: Callable[[], Any]) -> Any:
    if not rest:
        return own_code()
    path, hook = rest[0]
    manager = hook(job)
    if not _is_plain(manager):
        raise _refused(path, manager, job)
    with manager:
        return _call(rest[1:], job, own_code)


async def _acall(rest: Hooks, job: CurrentJob, own_code: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    if not rest:
        return await own_code()
    path, hook = rest[0]
    manager = hook(job)
    if not _is_async(manager):
        if not _is_plain(manager):
            raise _refused(path, manager, job)
        manager = InThread(manager)
    async with manager:
        return await _acall(rest[1:], job, own_code)


class InThread:
    """A plain context manager around a coroutine: entered and left in the job's thread for synchronous code.

    So it may block and use the database, on the connections that the ORM uses in the coroutine. The values that it sets
    in context variables are set for the coroutine.
    """

    def __init__(self, manager: Any) -> None:
        self.manager = manager
        self.context = copy_context()  # one for both calls: a variable is reset only in the context in which it was set
        self.tokens: dict[ContextVar[Any], Token[Any]] = {}  # of variables that were unset before

    async def __aenter__(self) -> None:
        cancel = await self._call("__enter__")
        if cancel is not None:
            await self._call("__exit__", type(cancel), cancel, cancel.__traceback__)
            raise cancel

    async def __aexit__(self, *raised: Any) -> bool:
        cancel = await self._call("__exit__", *raised)
        if cancel is not None:
            raise cancel
        return bool(self.result)

    async def _call(self, name: str, *args: Any) -> asyncio.CancelledError | None:
        """Call a method to its end, and return the cancel that was requested meanwhile."""
        method = getattr(type(self.manager), name)

        def in_thread() -> Any:
            self.context.run(_restore_context, copy_context())  # what the coroutine has set
            return self.context.run(method, self.manager, *args)

        calling = asyncio.ensure_future(sync_to_async(in_thread)())
        cancel = None
        while not calling.done():
            try:
                await asyncio.wait([calling])
            except asyncio.CancelledError as error:
                cancel = error
        try:
            self.result = calling.result()
        finally:
            self._take_over()
        return cancel

    def _take_over(self) -> None:
        """Copy the context variables that the manager has set to the context of the coroutine."""
        before = copy_context()
        self.tokens |= {var: var.set(value) for var, value in self.context.items() if var not in before}
        _restore_context(self.context)
        for var in [var for var in self.tokens if var not in self.context]:
            var.reset(self.tokens.pop(var))


def _is_plain(manager: Any) -> bool:
    return hasattr(type(manager), "__enter__") and hasattr(type(manager), "__exit__")


def _is_async(manager: Any) -> bool:
    return hasattr(type(manager), "__aenter__") and hasattr(type(manager), "__aexit__")


def _refused(path: str, returned: Any, job: CurrentJob) -> TypeError:
    """Return the error for what a function in AROUND returned."""
    where = f"{path} in DJQUEUE['AROUND']"
    if _is_async(returned):
        return TypeError(
            f"{where} returned an async context manager, but the task {job.task} is a plain function. Return a plain "
            "context manager: it works for both."
        )
    if inspect.iscoroutine(returned):
        returned.close()  # otherwise Python warns that it was never awaited
    remedy = "Decorate it with @contextlib.contextmanager." if inspect.isgenerator(returned) else "Return one."
    return TypeError(f"{where} must return a context manager, got {type(returned).__name__}. {remedy}")
