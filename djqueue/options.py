"""What a task and a call may say about a job; None falls through: call, task, queue, default."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from . import conf
from .durations import Duration, seconds
from .exceptions import InvalidOption
from .retries import RetryPolicy
from .states import DedupUntil

MAX_NAME = 255
MAX_QUEUE = 128
LONG_PAST = datetime(1970, 1, 2, tzinfo=UTC)
LAST_YEAR = 8999
# Control characters break logs and terminals, "=" and "," are the command line's, surrogates have no UTF-8 form.
_BAD_QUEUE = re.compile("[\x00-\x20\x7f=,\ud800-\udfff]")
_BAD_NAME = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What `@djqueue.task(...)` says."""

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

    def __post_init__(self) -> None:
        _check(self)
        if self.on_dead is not None and not callable(self.on_dead):
            raise InvalidOption("on_dead must be callable")
        if not isinstance(self.sensitive, list | tuple) or not all(isinstance(name, str) for name in self.sensitive):
            raise InvalidOption('sensitive must be a list of argument names, such as ["password"]')


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """What `.using(...)` says of one enqueue."""

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
    headers: Mapping[str, Any] | None = None
    kv: Mapping[str, Any] | None = None
    id: UUID | str | None = None
    on_commit: bool | str = False

    def __post_init__(self) -> None:
        _check(self)
        if self.delay is not None:
            seconds(self.delay, "delay")
        if self.run_at is not None:
            object.__setattr__(self, "run_at", normal_run_at(self.run_at))
            if self.delay is not None:
                raise InvalidOption("give delay or run_at, not both")
        if self.dedup_key is not None:
            _check_name(self.dedup_key, "dedup_key", MAX_NAME, _BAD_NAME)
        for name in ("headers", "kv"):
            if not isinstance(getattr(self, name), Mapping | None):
                raise InvalidOption(f"{name} must be a dictionary")
        if self.id is not None:
            object.__setattr__(self, "id", job_id(self.id))
        if not isinstance(self.on_commit, bool) and self.on_commit not in settings.DATABASES:
            raise InvalidOption(f"on_commit must be True, False or a database alias, not {self.on_commit!r}")


def job_id(value: UUID | str) -> UUID:
    """An id as users may give it: also in the shape of a handle or a record."""
    value = getattr(value, "id", value)
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise InvalidOption(f"id must be a UUID, not {value!r}") from None


def option_names(kind: type[TaskOptions] | type[CallOptions]) -> list[str]:
    return [field.name for field in fields(kind)]


def check_task_name(name: str) -> None:
    _check_name(name, "the name of a task", MAX_NAME, _BAD_NAME)


def check_schedule_name(name: str) -> None:
    _check_name(name, "the name of a schedule", MAX_NAME, _BAD_NAME)


def check_queue(name: str) -> None:
    _check_name(name, "queue", MAX_QUEUE, _BAD_QUEUE)


def _check(options: TaskOptions | CallOptions) -> None:
    """What task and call have in common."""
    if options.queue is not None:
        check_queue(options.queue)
    if options.priority is not None:
        conf.priority(options.priority, "priority")
    if options.max_attempts is not None:
        conf.whole(options.max_attempts, "max_attempts")
    if not isinstance(options.retry, RetryPolicy | None):
        raise InvalidOption("retry must be a policy such as djqueue.Exponential(base=1, max=300)")
    if options.timeout is not None:
        conf.positive(options.timeout, "timeout")
    if options.lease is not None:
        seconds(options.lease, "lease")
    if options.dedup_until is not None and options.dedup_until not in list(DedupUntil):
        raise InvalidOption(f'dedup_until must be "claimed" or "done", not {options.dedup_until!r}')


def normal_run_at(value: datetime, name: str = "run_at") -> datetime:
    """A time that every database and every reader can hold: long past is past, and there is an end to the future."""
    if not isinstance(value, datetime):
        raise InvalidOption(f"{name} must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidOption(f"{name} must be aware: give it a time zone, as django.utils.timezone.now() has")
    if value.year < LONG_PAST.year:
        return LONG_PAST
    if value.year > LAST_YEAR:
        raise InvalidOption(f"{name} must be before the year {LAST_YEAR + 1}, not {value}")
    return value.astimezone(UTC)


def _check_name(value: str, what: str, longest: int, bad: re.Pattern[str]) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidOption(f"{what} must be a string that is not empty, not {value!r}")
    if len(value) > longest:
        raise InvalidOption(f"{what} may have {longest} characters; {value[:40]!r}… has {len(value)}")
    if found := bad.search(value):
        raise InvalidOption(f"{what} {value[:80]!r} contains the character {found[0]!r}")
