"""The options of tasks and calls. Unset options fall back: call, then task, then queue, then the default."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, TypedDict, TypeVar, Unpack
from uuid import UUID

from django.conf import settings

from djqueue import conf
from djqueue.exceptions import InvalidOption
from djqueue.states import DedupUntil, OnDuplicate

from .durations import Duration, seconds
from .limits import Limit
from .names import BAD_QUEUE, MAX_QUEUE, check_name
from .retries import RetryPolicy
from .shown import shown

EARLIEST = datetime(1970, 1, 2, tzinfo=UTC)
LAST_YEAR = 8999


class GivenTaskOptions(TypedDict, total=False):
    """The keyword arguments of `@djqueue.task(...)`, so that an editor knows them: the fields of TaskOptions."""

    queue: str | None
    priority: int | None
    max_attempts: int | None
    retry: RetryPolicy | None
    timeout: Duration | None
    lease: Duration | None
    dedup_until: str | None
    cron: str | None
    on_dead: Callable[..., object] | None
    sensitive: Sequence[str]
    topics: Sequence[str]
    limit: Limit | None


class GivenCallOptions(TypedDict, total=False):
    """The keyword arguments of `.using(...)`, so that an editor knows them: the fields of CallOptions."""

    queue: str | None
    priority: int | None
    delay: Duration | None
    run_at: datetime | None
    max_attempts: int | None
    retry: RetryPolicy | None
    timeout: Duration | None
    lease: Duration | None
    dedup_key: str | None
    dedup_until: str | None
    on_duplicate: str | None
    max_wait: Duration | None
    limit_key: str | None
    headers: Mapping[str, Any] | None
    kv: Mapping[str, Any] | None
    id: UUID | str | None
    on_commit: bool | str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """The options of `@djqueue.task(...)`."""

    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    retry: RetryPolicy | None = None
    timeout: Duration | None = None
    lease: Duration | None = None
    dedup_until: str | None = None
    cron: str | None = None
    on_dead: Callable[..., object] | None = None
    sensitive: Sequence[str] = ()
    topics: Sequence[str] = ()
    limit: Limit | None = None

    def __post_init__(self) -> None:
        _check_common(self)
        if self.on_dead is not None and not callable(self.on_dead):
            raise InvalidOption(f"on_dead must be callable, got {shown(self.on_dead)}")
        if not isinstance(self.sensitive, list | tuple) or not all(isinstance(name, str) for name in self.sensitive):
            raise InvalidOption(
                f'sensitive must be a list of argument names such as ["password"], got {shown(self.sensitive)}'
            )
        if not isinstance(self.topics, list | tuple):
            raise InvalidOption(f'topics must be a list such as ["order.created"], got {shown(self.topics)}')
        for topic in self.topics:
            check_topic(topic)
        if not isinstance(self.limit, Limit | None):
            raise InvalidOption(
                f'limit must be a limit such as djqueue.Limit("user:{{id}}", concurrency=5), got {shown(self.limit)}'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """The options of one call, set with `.using(...)`."""

    queue: str | None = None
    priority: int | None = None
    delay: Duration | None = None
    run_at: datetime | None = None
    max_attempts: int | None = None
    retry: RetryPolicy | None = None
    timeout: Duration | None = None
    lease: Duration | None = None
    dedup_key: str | None = None
    dedup_until: str | None = None
    on_duplicate: str | None = None
    max_wait: Duration | None = None
    limit_key: str | None = None
    headers: Mapping[str, Any] | None = None
    kv: Mapping[str, Any] | None = None
    id: UUID | str | None = None
    on_commit: bool | str = False

    def __post_init__(self) -> None:
        _check_common(self)
        if self.delay is not None:
            seconds(self.delay, "delay")
        if self.run_at is not None:
            object.__setattr__(self, "run_at", normal_run_at(self.run_at))
            if self.delay is not None:
                raise InvalidOption("set either delay or run_at, not both")
        if self.dedup_key is not None:
            check_name(self.dedup_key, "dedup_key")
        self._check_duplicates()
        if self.limit_key:
            check_name(self.limit_key, "limit_key")
        elif not isinstance(self.limit_key, str | None):
            raise InvalidOption(f'limit_key must be a string, or "" for no limit, got {shown(self.limit_key)}')
        for name in ("headers", "kv"):
            if not isinstance(value := getattr(self, name), Mapping | None):
                raise InvalidOption(f"{name} must be a dictionary, got {type(value).__name__}")
        if self.id is not None:
            object.__setattr__(self, "id", job_id(self.id))
        if not isinstance(self.on_commit, bool) and (
            not isinstance(self.on_commit, str) or self.on_commit not in settings.DATABASES
        ):
            raise InvalidOption(f"on_commit must be True, False or a database alias, got {shown(self.on_commit)}")

    def _check_duplicates(self) -> None:
        if self.on_duplicate is not None and self.on_duplicate not in list(OnDuplicate):
            raise InvalidOption(f'on_duplicate must be "keep" or "replace", got {shown(self.on_duplicate)}')
        if self.max_wait is not None:
            conf.positive(self.max_wait, "max_wait")
            if self.on_duplicate != OnDuplicate.REPLACE:
                raise InvalidOption('max_wait has no meaning without on_duplicate="replace"')

    def given(self) -> dict[str, Any]:
        """Return the options that are set."""
        return {name: value for name in _names(CallOptions) if (value := getattr(self, name)) is not None}

    def merged(self, changes: Mapping[str, Any]) -> CallOptions:
        """Return these options with changes; a delay replaces a run_at, and a run_at a delay."""
        kept = self.given()
        if "run_at" in changes or "delay" in changes:
            kept = {name: value for name, value in kept.items() if name not in ("run_at", "delay")}
        return read_options(CallOptions, kept | dict(changes))


O = TypeVar("O", TaskOptions, CallOptions)  # noqa: E741


def read_options(kind: type[O], given: Mapping[str, Any]) -> O:
    """Return options made of keyword arguments. Raise InvalidOption if one is unknown or invalid."""
    valid = _names(kind)
    for name in given:
        if name not in valid:
            raise InvalidOption(f"Unknown option {name!r}. Valid options: {', '.join(valid)}")
    return kind(**given)


def resolve(name: str, queue: str, task: TaskOptions | None = None, call: Any = None) -> Any:
    """Return the value of an option: the call's, then the task's, then the queue's, then the default.

    None means unset at each level; so does an option that a level does not have.
    """
    if call is not None:
        return call
    if task is not None and (value := getattr(task, name)) is not None:
        return value
    return conf.config().for_queue(queue, name)


def job_id(value: UUID | str) -> UUID:
    """Return the UUID of a job given by its id, handle or record. Raise InvalidOption if it is malformed."""
    value = getattr(value, "id", value)
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise InvalidOption(f"id must be a UUID, got {shown(value)}") from None


def check_task_name(name: str) -> None:
    check_name(name, "task name")


def check_schedule_name(name: str) -> None:
    check_name(name, "schedule name")


def check_topic(name: str) -> None:
    check_name(name, "topic")


def check_queue(name: str) -> None:
    check_name(name, "queue", MAX_QUEUE, BAD_QUEUE)


def normal_run_at(value: datetime, name: str = "run_at") -> datetime:
    """Return a time in UTC that every database can store. Raise InvalidOption if it is naive or too far ahead."""
    if not isinstance(value, datetime):
        raise InvalidOption(f"{name} must be a datetime, got {shown(value)}")
    if value.utcoffset() is None:
        raise InvalidOption(f"{name} must be an aware datetime, got the naive {value}; set its tzinfo")
    if value.year < EARLIEST.year:
        return EARLIEST
    if value.year > LAST_YEAR:
        raise InvalidOption(f"{name} must be before the year {LAST_YEAR + 1}, got {value}")
    return value.astimezone(UTC)


def _names(kind: type[TaskOptions] | type[CallOptions]) -> list[str]:
    return [option.name for option in fields(kind)]


def _check_common(options: TaskOptions | CallOptions) -> None:
    """Check the options that tasks and calls share."""
    if options.queue is not None:
        check_queue(options.queue)
    if options.priority is not None:
        conf.priority(options.priority, "priority")
    if options.max_attempts is not None:
        conf.whole(options.max_attempts, "max_attempts")
    if not isinstance(options.retry, RetryPolicy | None):
        raise InvalidOption(
            f"retry must be a policy such as djqueue.Exponential(base=1, max=300), got {shown(options.retry)}"
        )
    if options.timeout is not None:
        conf.positive(options.timeout, "timeout")
    if options.lease is not None:
        seconds(options.lease, "lease")
    if options.dedup_until is not None and options.dedup_until not in list(DedupUntil):
        raise InvalidOption(f'dedup_until must be "claimed" or "done", got {shown(options.dedup_until)}')


NO_CALL_OPTIONS = CallOptions()


@dataclass(slots=True)  # not frozen, which would take three times as long to make
class Call:
    """The arguments of a job for `enqueue_many`; `task` is None if `Task.enqueue_many` supplies it."""

    args: Sequence[Any] = field(repr=False)
    kwargs: Mapping[str, Any] = field(repr=False)
    task: str | None = None
    options: CallOptions = NO_CALL_OPTIONS

    def using(self, **options: Unpack[GivenCallOptions]) -> Call:
        """Return this call with options of its own."""
        return replace(self, options=self.options.merged(options))
