"""`@djqueue.task`, and functions to enqueue jobs by task or by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, overload

from asgiref.sync import sync_to_async

from .core import registry
from .core.async_twins import twin
from .core.options import (
    NO_CALL_OPTIONS,
    Call,
    CallOptions,
    GivenCallOptions,
    GivenTaskOptions,
    TaskOptions,
    check_task_name,
    read_options,
)
from .core.shown import shown
from .exceptions import InvalidOption
from .jobs import JobHandle
from .lifecycle import enqueue as enqueueing

P = ParamSpec("P")
R = TypeVar("R")


def call(*args: Any, **kwargs: Any) -> Call:
    """Return one item for `task.enqueue_many`."""
    return Call(args, kwargs)


class Task(Generic[P, R]):
    """A registered function: call it directly, or enqueue it."""

    def __init__(
        self,
        func: Callable[P, R],
        name: str,
        options: TaskOptions,
        call_options: CallOptions = NO_CALL_OPTIONS,
    ) -> None:
        self.func = func
        self.name = name
        self.options = options
        self.call_options = call_options
        functools.update_wrapper(self, func)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.func(*args, **kwargs)

    def using(self, **options: Unpack[GivenCallOptions]) -> Task[P, R]:
        """Return this task with options for its next calls: queue, priority, delay or run_at, dedup_key, …"""
        return Task(self.func, self.name, self.options, self.call_options.merged(options))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Create a job in the caller's transaction."""
        return JobHandle(*enqueueing.enqueue(self.name, args, kwargs, self.call_options))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Async variant of `enqueue`."""
        return await sync_to_async(self.enqueue)(*args, **kwargs)

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Alias of `enqueue`."""
        return self.enqueue(*args, **kwargs)

    async def adelay(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Alias of `aenqueue`."""
        return await self.aenqueue(*args, **kwargs)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """Return one item for `djqueue.enqueue_many`."""
        return Call(args, kwargs, self.name, self.call_options)

    def enqueue_many(self, calls: Iterable[Call]) -> list[JobHandle]:
        """Create one job per call, all or none, and return their handles in the same order."""
        return [JobHandle(*created) for created in enqueueing.enqueue_many(calls, self.name, self.call_options)]

    async def aenqueue_many(self, calls: Iterable[Call]) -> list[JobHandle]:
        """Async variant of `enqueue_many`."""
        return await sync_to_async(self.enqueue_many)(calls)


@overload
def task(func: Callable[P, R], /) -> Task[P, R]: ...
@overload
def task(*, name: str | None = None, **options: Unpack[GivenTaskOptions]) -> Callable[[Callable[P, R]], Task[P, R]]: ...
def task(
    func: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Unpack[GivenTaskOptions]
) -> Any:
    """Register a function as a task, named `module.qualname` by default."""
    checked = read_options(TaskOptions, options)

    def register(func: Callable[P, R]) -> Task[P, R]:
        if not callable(func) or isinstance(func, type):
            raise InvalidOption(f"@djqueue.task expects a function, got {shown(func)}")
        if name is None and not hasattr(func, "__qualname__"):
            raise InvalidOption(f"{shown(func)} has no __qualname__; set a task name with @djqueue.task(name=...)")
        made = Task(func, name or f"{func.__module__}.{func.__qualname__}", checked)
        check_task_name(made.name)
        if checked.limit is not None:
            checked.limit.check(func)
        registry.register(made)
        return made

    return register if func is None else register(func)


def enqueue(
    name: str,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[GivenCallOptions],
) -> JobHandle:
    """Create a job by the name of its task. This process need not be able to import the task."""
    check_task_name(name)
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise InvalidOption(f"args must be a list or tuple, got {type(args).__name__}")
    if not isinstance(kwargs, Mapping | None):
        raise InvalidOption(f"kwargs must be a dictionary, got {type(kwargs).__name__}")
    return JobHandle(*enqueueing.enqueue(name, args, kwargs or {}, read_options(CallOptions, options)))


def enqueue_many(calls: Iterable[Call]) -> list[JobHandle]:
    """Create jobs of several tasks, all or none: `djqueue.enqueue_many([send.call(1), other.call("x")])`."""
    return [JobHandle(*created) for created in enqueueing.enqueue_many(calls, None, NO_CALL_OPTIONS)]


aenqueue = twin(enqueue)
aenqueue_many = twin(enqueue_many)
