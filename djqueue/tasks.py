"""`@djqueue.task`, and enqueueing by task or by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, ParamSpec, TypeVar, overload

from asgiref.sync import sync_to_async
from django.db import transaction

from . import registry
from .conf import config
from .exceptions import InvalidOption, InvalidPayload
from .handle import JobHandle
from .lifecycle import enqueue as enqueueing
from .options import CallOptions, TaskOptions, check_task_name, option_names
from .records import NewJob
from .twins import twin

P = ParamSpec("P")
R = TypeVar("R")
NO_CALL_OPTIONS = CallOptions()


@dataclass(frozen=True)
class Call:
    """The arguments of a job to be, for `enqueue_many`; `task` is None where the task is known from elsewhere."""

    args: Sequence[Any] = field(repr=False)
    kwargs: Mapping[str, Any] = field(repr=False)
    task: str | None = None
    options: CallOptions = NO_CALL_OPTIONS

    def using(self, **options: Any) -> Call:
        """The same call with options of its own."""
        return replace(self, options=_merged(self.options, options))


def call(*args: Any, **kwargs: Any) -> Call:
    """One item for `task.enqueue_many`."""
    return Call(args, kwargs)


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
        return Task(self.func, self.name, self.options, _merged(self.call_options, options))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Create a job, in the caller's transaction."""
        return _enqueue(self.name, args, kwargs, self.call_options)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """The async twin of `enqueue`."""
        return await sync_to_async(self.enqueue)(*args, **kwargs)

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """The same as `enqueue`."""
        return self.enqueue(*args, **kwargs)

    async def adelay(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        return await self.aenqueue(*args, **kwargs)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """One item for `djqueue.enqueue_many`."""
        return Call(args, kwargs, self.name, self.call_options)

    def enqueue_many(self, calls: Iterable[Call]) -> list[JobHandle]:
        """Create a job for each call, all or none; handles in their order."""
        return _enqueue_many(calls, self.name, self.call_options)

    async def aenqueue_many(self, calls: Iterable[Call]) -> list[JobHandle]:
        """The async twin of `enqueue_many`."""
        return await sync_to_async(self.enqueue_many)(calls)


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
        if name is None and not hasattr(func, "__qualname__"):
            raise InvalidOption(f"{func!r} has no name of its own: give one with @djqueue.task(name=...)")
        made = Task(func, name or f"{func.__module__}.{func.__qualname__}", checked)
        check_task_name(made.name)
        registry.register(made)
        return made

    return register if func is None else register(func)


def enqueue(name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any) -> JobHandle:
    """Create a job by the name of its task, which need not be importable here."""
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise InvalidOption(f"args must be a list or a tuple, not {type(args).__name__}")
    if not isinstance(kwargs, Mapping | None):
        raise InvalidOption(f"kwargs must be a dictionary, not {type(kwargs).__name__}")
    return _enqueue(name, args, kwargs or {}, _options(CallOptions, options))


def enqueue_many(calls: Iterable[Call]) -> list[JobHandle]:
    """Create jobs of several tasks, all or none: `djqueue.enqueue_many([send.call(1), other.call("x")])`."""
    return _enqueue_many(calls, None, NO_CALL_OPTIONS)


aenqueue = twin(enqueue)
aenqueue_many = twin(enqueue_many)


def _enqueue_many(calls: Iterable[Call], task: str | None, base: CallOptions) -> list[JobHandle]:
    for name in ("id", "dedup_key", "kv"):
        if getattr(base, name) is not None:
            raise InvalidOption(
                f"{name} cannot be the same for many jobs: give it to single calls, with call().using()"
            )

    def prepare_all() -> Iterator[NewJob]:
        for position, item in enumerate(calls):
            try:
                yield _prepare_call(item, task, base)
            except (InvalidPayload, InvalidOption) as error:
                raise type(error)(f"item {position}: {error}") from error

    if base.on_commit is False:
        inserted = enqueueing.enqueue_many(prepare_all, again=isinstance(calls, Sequence))
        return [JobHandle(row.id, row.created) for row in inserted]
    prepared = list(prepare_all())
    _on_commit(base, functools.partial(enqueueing.enqueue_many, lambda: prepared, again=True))
    return [JobHandle(job.id, None) for job in prepared]


def _prepare_call(item: Call, task: str | None, base: CallOptions) -> NewJob:
    if not isinstance(item, Call):
        raise InvalidOption(f"must be made by djqueue.call() or task.call(), not {type(item).__name__}")
    name = item.task or task
    if name is None:
        raise InvalidOption("names no task: make it by task.call()")
    if task is not None and name != task:
        raise InvalidOption(f"is a call of {name}; use djqueue.enqueue_many for several tasks")
    if item.options.kv is not None or item.options.on_commit is not False:
        raise InvalidOption("kv and on_commit are not for the items of a batch")
    options = base if item.options is NO_CALL_OPTIONS else _merged(base, _given(item.options))
    return enqueueing.prepare(name, item.args, item.kwargs, options).job


def _enqueue(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], call: CallOptions) -> JobHandle:
    prepared = enqueueing.prepare(name, args, kwargs, call)
    if call.on_commit is False:
        inserted = enqueueing.enqueue(prepared)
        return JobHandle(inserted.id, inserted.created)
    _on_commit(call, functools.partial(enqueueing.enqueue, prepared))
    return JobHandle(prepared.job.id, None)


def _on_commit(options: CallOptions, work: Callable[[], object]) -> None:
    alias = options.on_commit if isinstance(options.on_commit, str) else config().database
    transaction.on_commit(work, using=alias)


O = TypeVar("O", TaskOptions, CallOptions)  # noqa: E741


def _options(kind: type[O], given: Mapping[str, Any]) -> O:
    known = option_names(kind)
    for name in given:
        if name not in known:
            raise InvalidOption(f"unknown option {name!r}; known are {', '.join(known)}")
    return kind(**given)


def _given(options: CallOptions) -> dict[str, Any]:
    """The options that are set."""
    return {name: value for name in option_names(CallOptions) if (value := getattr(options, name)) is not None}


def _merged(base: CallOptions, more: Mapping[str, Any]) -> CallOptions:
    kept = _given(base)
    if "run_at" in more or "delay" in more:  # the later word on when it runs
        kept = {name: value for name, value in kept.items() if name not in ("run_at", "delay")}
    return _options(CallOptions, kept | dict(more))
