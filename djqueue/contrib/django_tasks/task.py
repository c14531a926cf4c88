"""The Task with djqueue's options, and a decorator that accepts them on every version of Django."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, TypeVar

from djqueue.core.durations import Duration
from djqueue.core.options import CallOptions, TaskOptions
from djqueue.core.retries import RetryPolicy
from djqueue.exceptions import InvalidOption

from .compat import InvalidTask, Task, TaskResult, task_backends

Backoff = Callable[[BaseException, "TaskResult[..., Any]"], Duration | None]

# Fields of a Task of Django that `using()` accepts, and djqueue's that one call may set.
OF_DJANGO = ("priority", "queue_name", "run_after", "backend")
OF_A_CALL = ("max_attempts", "retry", "timeout", "lease", "dedup_key", "dedup_until", "headers")

AnyTask = TypeVar("AnyTask", bound="Task[..., Any]")


@dataclass(frozen=True, slots=True, kw_only=True)
class DjqueueTask(Task):  # type: ignore[type-arg]
    """A Task with options of djqueue. They mean what they mean for `@djqueue.task` and its `using()`."""

    max_attempts: int | None = None
    retry: RetryPolicy | None = None
    backoff: Backoff | None = None  # returns the delay until the next attempt; None: the retry policy decides
    timeout: Duration | None = None
    lease: Duration | None = None
    dedup_key: str | None = None
    dedup_until: str | None = None
    headers: Mapping[str, Any] | None = field(default=None, hash=False)
    on_dead: Callable[..., object] | None = None
    sensitive: Sequence[str] = ()

    # Zero-argument super() fails in these methods: with slots, the decorator makes another class than their own.

    def __post_init__(self) -> None:
        _check(self)
        for name in ("timeout", "lease"):
            if isinstance(value := getattr(self, name), timedelta):  # stored as seconds, so results compare equal
                object.__setattr__(self, name, value.total_seconds())
        object.__setattr__(self, "sensitive", tuple(self.sensitive))
        Task.__post_init__(self)
        from .running import register

        register(self)

    def using(self, **changes: Any) -> DjqueueTask:
        """Return this task with other options for its next calls. None leaves an option unchanged."""
        for name in changes:
            if name not in OF_DJANGO + OF_A_CALL:
                raise TypeError(f"Unknown option {name!r}. Valid options: {', '.join(OF_DJANGO + OF_A_CALL)}")
        return replace(self, **{name: value for name, value in changes.items() if value is not None})


def task(
    function: Callable[..., Any] | None = None,
    *,
    priority: int = 0,
    queue_name: str = "default",
    backend: str = "default",
    takes_context: bool = False,
    **options: Any,
) -> Any:
    """Make a function a Task, as Django's decorator does. Unlike that of Django 6.0, this one accepts more options."""

    def make(func: Callable[..., Any]) -> Task[..., Any]:
        return task_backends[backend].task_class(
            func=func,
            priority=priority,
            queue_name=queue_name,
            backend=backend,
            takes_context=takes_context,
            run_after=None,
            **options,
        )

    return make if function is None else make(function)


def copy_of(task: AnyTask, **changes: Any) -> AnyTask:
    """Return a copy with changes, unchecked: a stored job may no longer fit the settings, but it is what it is."""
    made = object.__new__(type(task))
    for each in fields(task):
        object.__setattr__(made, each.name, changes.get(each.name, getattr(task, each.name)))
    return made


def set_options(task: Task[..., Any], names: Sequence[str]) -> dict[str, Any]:
    """Return those of djqueue's options that a task sets; a Task of Django itself has none."""
    return {name: value for name in names if (value := getattr(task, name, None)) is not None}


def _check(task: DjqueueTask) -> None:
    """Raise InvalidTask if an option of djqueue is invalid."""
    try:
        CallOptions(**set_options(task, OF_A_CALL))
        TaskOptions(on_dead=task.on_dead, sensitive=task.sensitive)
    except InvalidOption as error:
        raise InvalidTask(str(error)) from None
    if task.backoff is not None and not callable(task.backoff):
        raise InvalidTask(f"backoff must be a function of the exception and the TaskResult, got {task.backoff!r:.80}")
