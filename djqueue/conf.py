"""The DJQUEUE setting: read lazily, checked, and dropped when a test overrides it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from .durations import seconds
from .exceptions import InvalidOption
from .retries import Exponential

T = TypeVar("T")
Reader = Callable[[Any, str], Any]

DAY = 86400.0
FOR_EVER = math.inf
MAX_KV_VALUE_SIZE = 256 * 1024
MAX_INTEGER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """What QUEUES says of one queue; None falls through to the default."""

    max_attempts: int | None = None
    lease: float | None = None
    timeout: float | None = None
    priority: int | None = None
    backoff_base: float | None = None
    backoff_max: float | None = None
    keep_done: float | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """The DJQUEUE setting with its defaults; durations are seconds."""

    database: str = "default"
    max_attempts: int = 3
    lease: float = 30.0
    timeout: float | None = None
    priority: int = 1000
    backoff_base: float = 1.0
    backoff_max: float = 300.0
    backoff_jitter: float = 0.1
    keep_done: float = DAY
    keep_dead: float = 7 * DAY
    reaper_interval: float = 5.0
    scheduler_interval: float = 1.0
    poll_interval: float = 1.0
    max_payload_size: int = 1024 * 1024
    unknown_task_grace: float = 600.0
    shutdown_grace: float = 30.0
    notify: bool = True
    listen_database: str | None = None
    eager: bool = False
    queues: Mapping[str, QueueConfig] = field(default_factory=dict)

    def queue(self, name: str) -> QueueConfig:
        return self.queues.get(name, _NO_QUEUE_CONFIG)

    def lease_for(self, queue: str) -> float:
        return first(self.queue(queue).lease, self.lease)

    def keep_done_for(self, queue: str) -> float:
        return first(self.queue(queue).keep_done, self.keep_done)

    def queues_kept_otherwise(self) -> tuple[bool, list[str]]:
        """Whether ended jobs are kept, and the queues where the opposite holds."""
        keep = self.keep_done > 0
        return keep, [name for name in self.queues if (self.keep_done_for(name) > 0) != keep]

    def backoff_for(self, queue: str) -> Exponential:
        own = self.queue(queue)
        return Exponential(
            first(own.backoff_base, self.backoff_base),
            first(own.backoff_max, self.backoff_max),
            self.backoff_jitter,
        )


_NO_QUEUE_CONFIG = QueueConfig()


def first(*values: T | None) -> T:
    """The most specific value that is set; the last one always is."""
    for value in values:
        if value is not None:
            return value
    raise AssertionError("no default given")


@cache
def config() -> Config:
    """The checked setting; raises ImproperlyConfigured with every problem found in it."""
    given, problems = _parse(getattr(settings, "DJQUEUE", {}))
    if problems:
        raise ImproperlyConfigured(" ".join(problems))
    return Config(**given)


def problems() -> list[str]:
    """What is wrong with the setting, a sentence each."""
    return _parse(getattr(settings, "DJQUEUE", {}))[1]


def _drop(*, setting: str, **kwargs: Any) -> None:
    if setting == "DJQUEUE":
        config.cache_clear()


setting_changed.connect(_drop, dispatch_uid="djqueue.conf")


def _parse(given: object) -> tuple[dict[str, Any], list[str]]:
    if not isinstance(given, Mapping):
        return {}, ["DJQUEUE must be a dictionary."]
    values, found = _read(given, _READERS, "DJQUEUE")
    if "QUEUES" in values:
        queues = values.pop("QUEUES")
        values["queues"] = {}
        for name, options in queues.items():
            where = f"DJQUEUE['QUEUES'][{name!r}]"
            if not isinstance(name, str) or not isinstance(options, Mapping):
                found.append(f"{where} must be a name with a dictionary of options.")
                continue
            given_options = {key: value for key, value in options.items() if value is not None or key == "keep_done"}
            own, more = _read(given_options, _QUEUE_READERS, where)
            found += more
            if not more:
                values["queues"][name] = QueueConfig(**own)
    return {key.lower(): value for key, value in values.items()}, found


def _read(given: Mapping[Any, Any], readers: Mapping[str, Reader], where: str) -> tuple[dict[str, Any], list[str]]:
    values, found = {}, []
    for key, value in given.items():
        if key not in readers:
            folded = {name.lower(): name for name in readers}
            close = difflib.get_close_matches(str(key).lower(), folded, n=1, cutoff=0.5)
            hint = f" Did you mean {folded[close[0]]!r}?" if close else f" Known are {', '.join(readers)}."
            found.append(f"{where} has the unknown key {key!r}.{hint}")
            continue
        try:
            values[key] = readers[key](value, key)
        except InvalidOption as error:
            found.append(f"{where}: {error}.")
    return values, found


def whole(value: Any, name: str, least: int = 1, most: int = MAX_INTEGER) -> int:
    """A whole number in a range, or InvalidOption naming the option."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidOption(f"{name} must be a whole number from {least} to {most}, not {value!r}")
    return int(value)


def priority(value: Any, name: str) -> int:
    return whole(value, name, -MAX_INTEGER, MAX_INTEGER)


def positive(value: Any, name: str) -> float:
    found = seconds(value, name)
    if not found:
        raise InvalidOption(f"{name} must be more than 0")
    return found


def _size(value: Any, name: str) -> int:
    return whole(value, name, 1, 1024**3)


def _fraction(value: Any, name: str) -> float:
    try:
        return Exponential(1, 1, value).jitter or 0.0
    except InvalidOption:
        raise InvalidOption(f"{name} must be a fraction from 0 to 10, not {value!r}") from None


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidOption(f"{name} must be True or False, not {value!r}")
    return value


def _alias(value: Any, name: str) -> str:
    if not isinstance(value, str) or value not in settings.DATABASES:
        raise InvalidOption(f"{name} names {value!r}, which is not in DATABASES")
    return value


def _table(value: Any, name: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise InvalidOption(f"{name} must be a dictionary")
    return value


def _retention(value: Any, name: str) -> float:
    return FOR_EVER if value is None else seconds(value, name)


def _or_none(reader: Reader) -> Reader:
    return lambda value, name: None if value is None else reader(value, name)


_READERS: dict[str, Reader] = {
    "DATABASE": _alias,
    "MAX_ATTEMPTS": whole,
    "LEASE": seconds,
    "TIMEOUT": _or_none(positive),
    "PRIORITY": priority,
    "BACKOFF_BASE": seconds,
    "BACKOFF_MAX": seconds,
    "BACKOFF_JITTER": _fraction,
    "KEEP_DONE": _retention,
    "KEEP_DEAD": _retention,
    "REAPER_INTERVAL": positive,
    "SCHEDULER_INTERVAL": positive,
    "POLL_INTERVAL": positive,
    "MAX_PAYLOAD_SIZE": _size,
    "UNKNOWN_TASK_GRACE": seconds,
    "SHUTDOWN_GRACE": seconds,
    "NOTIFY": _flag,
    "LISTEN_DATABASE": _or_none(_alias),
    "EAGER": _flag,
    "QUEUES": _table,
}
_QUEUE_READERS: dict[str, Reader] = {
    "max_attempts": whole,
    "lease": seconds,
    "timeout": positive,
    "priority": priority,
    "backoff_base": seconds,
    "backoff_max": seconds,
    "keep_done": _retention,
    "concurrency": whole,
}
assert {key.lower() for key in _READERS} == {f.name for f in fields(Config)}
assert set(_QUEUE_READERS) == {f.name for f in fields(QueueConfig)}
