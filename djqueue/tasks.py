"""`@djqueue.task`, and enqueueing by task or by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, overload

from django.db import transaction

from . import registry
from .conf import config
from .exceptions import InvalidOption
from .handle import JobHandle
from .lifecycle import enqueue as enqueueing
from .options import CallOptions, TaskOptions, check_task_name, option_names

P = ParamSpec("P")
R = TypeVar("R")
NO_CALL_OPTIONS = CallOptions()


class Task(Generic[P, R]):
    """A registered function: call it as before, or enqueue it."""

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

    def using(self, **options: Any) -> Task[P, R]:
        """The same task with options for this enqueue: queue, priority, delay or run_at, dedup_key, …"""
        merged = {name: getattr(self.call_options, name) for name in option_names(CallOptions)} | options
        return Task(self.func, self.name, self.options, _options(CallOptions, merged))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Create a job, in the caller's transaction."""
        return _enqueue(self.name, args, kwargs, self.call_options)

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """The same as enqueue."""
        return self.enqueue(*args, **kwargs)


@overload
def task(func: Callable[P, R], /) -> Task[P, R]: ...
@overload
def task(*, name: str | None = None, **options: Any) -> Callable[[Callable[P, R]], Task[P, R]]: ...
def task(func: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any) -> Any:
    """Register a function as a task, under `module.qualname` unless a name is given."""
    checked = _options(TaskOptions, options)

    def register(func: Callable[P, R]) -> Task[P, R]:
        if not callable(func) or isinstance(func, type):
            raise InvalidOption(f"@djqueue.task takes a function, not {func!r}")
        made = Task(func, name or f"{func.__module__}.{func.__qualname__}", checked)
        check_task_name(made.name)
        registry.register(made)
        return made

    return register if func is None else register(func)


def enqueue(name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any) -> JobHandle:
    """Create a job by the name of its task, which need not be importable here."""
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise InvalidOption(f"args must be a list or a tuple, not {type(args).__name__}")
    return _enqueue(name, args, kwargs or {}, _options(CallOptions, options))


def _enqueue(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], call: CallOptions) -> JobHandle:
    prepared = enqueueing.prepare(name, args, kwargs, call)
    if call.on_commit is False:
        inserted = enqueueing.enqueue(prepared)
        return JobHandle(inserted.id, inserted.created)
    alias = config().database if call.on_commit is True else call.on_commit
    transaction.on_commit(functools.partial(enqueueing.enqueue, prepared), using=alias)
    return JobHandle(prepared.job.id, None)


O = TypeVar("O", TaskOptions, CallOptions)  # noqa: E741


def _options(kind: type[O], given: Mapping[str, Any]) -> O:
    known = option_names(kind)
    for name in given:
        if name not in known:
            raise InvalidOption(f"unknown option {name!r}; known are {', '.join(known)}")
    return kind(**given)
