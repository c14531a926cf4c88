"""The DJQUEUE setting: read lazily, checked, and read again after setting_changed."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from .core.durations import seconds
from .core.retries import Exponential
from .core.shown import shown
from .exceptions import InvalidOption

Reader = Callable[[Any, str], Any]

DAY = 86400.0
FOR_EVER = math.inf
MAX_KV_VALUE_SIZE = 256 * 1024
MAX_INTEGER = 2**31 - 1
MAX_PRIORITY = 2**63 - 1
NEEDS_TIME_ZONES = "djqueue requires USE_TZ = True: its times are aware, and compared in UTC."


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """The options of one queue in QUEUES; None falls back to the default."""

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
    around: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    health_token: str | None = None
    queues: Mapping[str, QueueConfig] = field(default_factory=dict)

    def for_queue(self, queue: str, name: str) -> Any:
        """Return the queue's value of an option, or the default; None for an option that has neither."""
        own = self.queues.get(queue)  # most queues have no options of their own
        value = None if own is None else getattr(own, name, None)
        return getattr(self, name, None) if value is None else value

    def backoff_for(self, queue: str) -> Exponential:
        """Return the retry policy for tasks that do not set one."""
        base, longest = self.for_queue(queue, "backoff_base"), self.for_queue(queue, "backoff_max")
        return Exponential(base, longest, self.backoff_jitter)

    def queues_that_keep(self) -> dict[str, bool]:
        """Return whether finished jobs are kept, by queue; queues without options of their own follow `keep_done`."""
        return {name: self.for_queue(name, "keep_done") > 0 for name in self.queues}


@cache
def config() -> Config:
    """Return the checked setting. Raise ImproperlyConfigured, with all problems, if it is not valid."""
    given, problems = _parse(getattr(settings, "DJQUEUE", {}))
    if not settings.USE_TZ:
        problems.append(NEEDS_TIME_ZONES)
    if problems:
        raise ImproperlyConfigured(" ".join(problems))
    return Config(**given)


def problems() -> list[str]:
    """Return the problems of the setting, one sentence each."""
    return _parse(getattr(settings, "DJQUEUE", {}))[1]


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting in ("DJQUEUE", "USE_TZ"):
        config.cache_clear()


setting_changed.connect(_forget, dispatch_uid="djqueue.conf")


def _parse(given: object) -> tuple[dict[str, Any], list[str]]:
    if not isinstance(given, Mapping):
        return {}, [f"DJQUEUE must be a dictionary, got {type(given).__name__}."]
    values, found = _read(given, _READERS, "DJQUEUE")
    if "QUEUES" in values:
        queues = values.pop("QUEUES")
        values["queues"] = {}
        for name, options in queues.items():
            where = f"DJQUEUE['QUEUES'][{shown(name)}]"
            if not isinstance(name, str) or not isinstance(options, Mapping):
                found.append(f"{where} must map a queue name to a dictionary of options, got {shown(options)}.")
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
            close = difflib.get_close_matches(key.lower() if isinstance(key, str) else "", folded, n=1, cutoff=0.5)
            hint = f" Did you mean {folded[close[0]]!r}?" if close else f" Valid keys: {', '.join(readers)}."
            found.append(f"Unknown key {shown(key)} in {where}.{hint}")
            continue
        try:
            values[key] = readers[key](value, key)
        except InvalidOption as error:
            found.append(f"{where}: {error}.")
    return values, found


def whole(value: Any, name: str, least: int = 1, most: int = MAX_INTEGER) -> int:
    """Return a whole number. Raise InvalidOption, naming the option, if it is not in the range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidOption(f"{name} must be a whole number from {least} to {most}, got {shown(value)}")
    return int(value)


def priority(value: Any, name: str) -> int:
    """Return a priority. Raise InvalidOption if it does not fit into its column."""
    return whole(value, name, -MAX_PRIORITY, MAX_PRIORITY)


def positive(value: Any, name: str) -> float:
    """Return a duration in seconds. Raise InvalidOption if it is not greater than 0."""
    found = seconds(value, name)
    if not found:
        raise InvalidOption(f"{name} must be greater than 0, got {shown(value)}")
    return found


def _size(value: Any, name: str) -> int:
    return whole(value, name, 1, 1024**3)


def _fraction(value: Any, name: str) -> float:
    try:
        return Exponential(1, 1, value).jitter or 0.0
    except InvalidOption:
        raise InvalidOption(f"{name} must be a number from 0 to 10, got {shown(value)}") from None


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidOption(f"{name} must be True or False, got {shown(value)}")
    return value


def _alias(value: Any, name: str) -> str:
    if not isinstance(value, str) or value not in settings.DATABASES:
        raise InvalidOption(
            f"{name} must be an alias in DATABASES ({', '.join(settings.DATABASES)}), got {shown(value)}"
        )
    return value


def _table(value: Any, name: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise InvalidOption(f"{name} must be a dictionary, got {type(value).__name__}")
    return value


def _paths(value: Any, name: str) -> tuple[str, ...]:
    """Return dotted paths. They are not imported here: the supervisor of a worker imports no code of the project."""
    if not isinstance(value, list | tuple):
        raise InvalidOption(f'{name} must be a list of dotted paths such as ["shop.jobs.tenant"], got {shown(value)}')
    for path in value:
        parts = path.split(".") if isinstance(path, str) else []
        if len(parts) < 2 or not all(part.isidentifier() for part in parts):
            raise InvalidOption(f'{name} must contain dotted paths such as "shop.jobs.tenant", got {shown(path)}')
    return tuple(value)


def _token(value: Any, name: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[!-~]+", value):
        # Without the value, which may be a secret.
        raise InvalidOption(f"{name} must be a string of one or more ASCII characters without spaces")
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
    "AROUND": _paths,
    "HEADERS": _paths,
    "HEALTH_TOKEN": _or_none(_token),
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
