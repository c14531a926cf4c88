"""The `limit` option of a task: how many of its jobs may run at once or per time, counted by a key."""

from __future__ import annotations

import inspect
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from djqueue import conf
from djqueue.exceptions import InvalidOption

from .names import check_name
from .shown import shown

_RATE = re.compile(r"(\d+(?:\.\d+)?)/([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST = 10 * 365 * 86400  # seconds that a burst may take
MOST = 1_000_000  # permits of a key, and jobs per unit of a rate

_FORMATTER = string.Formatter()
signature_of = cache(inspect.signature)


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a key allows. None stands for no bound, or in an override for the number of the task."""

    concurrency: int | None = None
    rate: float | None = None  # per second
    burst: int | None = None

    def replaced_by(self, override: Numbers) -> Numbers:
        """Return these numbers, except for those that the override sets."""
        rate = self.rate if override.rate is None else override.rate
        burst = override.burst or (self.burst if override.rate is None else None)
        return Numbers(
            self.concurrency if override.concurrency is None else override.concurrency,
            rate,
            None if rate is None else burst or usual_burst(rate),
        )


@dataclass(frozen=True, slots=True)
class LimitState:
    """A limit key as it was when it was read."""

    key: str
    concurrency: int | None = None
    rate: float | None = None  # per second
    burst: int | None = None
    admitted: int = 0  # jobs that hold a permit: pending or claimed
    running: int = 0  # of these, the claimed ones
    blocked: int = 0  # jobs that wait for a permit
    held_until: datetime | None = None  # nothing is admitted before this time


@dataclass(frozen=True)
class Limit:
    """At most `concurrency` jobs at once and `rate` per second, minute, hour or day, for each value of `key`.

    The key is a format string with the names of the task's parameters, such as "tenant:{tenant_id}". Tasks and queues
    that make the same key share its permits.
    """

    key: str
    concurrency: int | None = None
    rate: str | None = None
    burst: int | None = None
    numbers: Numbers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not self.key:
            raise InvalidOption(
                f'the key of a limit must be a format string such as "user:{{id}}", got {shown(self.key)}'
            )
        self.names()
        object.__setattr__(self, "numbers", read_numbers(self.concurrency, self.rate, self.burst))

    def names(self) -> list[str]:
        """Return the parameters that the key refers to. Raise InvalidOption if it is not a valid format string."""
        try:
            fields = [name for _, name, _, _ in _FORMATTER.parse(self.key) if name is not None]
        except ValueError as error:
            raise InvalidOption(f"the key {shown(self.key)} of a limit is not a format string: {error}") from None
        for name in fields:
            if not re.match(r"[^\W\d]\w*", name):
                raise InvalidOption(
                    f'the key {shown(self.key)} of a limit must name parameters of the task, as in "user:{{id}}"'
                )
        return [re.split(r"[.\[]", name)[0] for name in fields]

    def check(self, func: Callable[..., Any]) -> None:
        """Raise InvalidOption if the key names something that is not a parameter of the function."""
        try:
            parameters = list(signature_of(func).parameters)
        except (TypeError, ValueError):
            return  # a signature that cannot be read
        for name in self.names():
            if name not in parameters:
                raise InvalidOption(
                    f"the key {self.key!r} of a limit names {name!r}, which is not a parameter of {func.__name__}() "
                    f"({', '.join(parameters) or 'it has none'})"
                )

    def key_for(self, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Return the key of a call to a function with this signature."""
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        try:
            key = self.key.format_map(bound.arguments)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise InvalidOption(f"the key {self.key!r} of a limit cannot be made of these arguments: {error}") from None
        check_name(key, "limit key")
        return key


def read_numbers(concurrency: Any, rate: Any, burst: Any) -> Numbers:
    """Return checked numbers. Raise InvalidOption if one is malformed, or if there is nothing to limit."""
    if concurrency is None and rate is None:
        raise InvalidOption("a limit needs concurrency, rate or both")
    if concurrency is not None:
        conf.whole(concurrency, "concurrency", 1, MOST)
    per_second = None if rate is None else read_rate(rate)
    if burst is not None:
        conf.whole(burst, "burst", 1, MOST)
        if per_second is None:
            raise InvalidOption("burst has no meaning without rate")
    if per_second is None:
        return Numbers(concurrency)
    numbers = Numbers(concurrency, per_second, burst or usual_burst(per_second))
    if (numbers.burst or 1) / per_second > LONGEST:
        raise InvalidOption(f"a burst of {numbers.burst} must take at most ten years at the rate, got {rate!r}")
    return numbers


def read_rate(rate: Any) -> float:
    """Return jobs per second. Raise InvalidOption if the rate is malformed."""
    found = _RATE.fullmatch(rate) if isinstance(rate, str) else None
    if found is None or not 0 < float(found[1]) <= MOST:
        raise InvalidOption(
            f'rate must be a number of jobs per second, minute, hour or day, such as "100/m", got {shown(rate)}'
        )
    return float(found[1]) / _SECONDS[found[2]]


def usual_burst(rate: float) -> int:
    """Return how many jobs may start at once after a pause, unless the limit sets it: those of a second, at least 1."""
    return max(1, int(rate))


def portable_signature(func: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature of a task for a process that does not import the task: defaults as they appear in a key."""
    try:
        parameters = signature_of(func).parameters.values()
    except (TypeError, ValueError):
        return None
    return inspect.Signature([_portable(parameter) for parameter in parameters])


def _portable(parameter: inspect.Parameter) -> inspect.Parameter:
    default = parameter.default
    if default is not parameter.empty and not isinstance(default, str | int | float | None):
        default = str(default)
    return parameter.replace(default=default, annotation=parameter.empty)
