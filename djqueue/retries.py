"""Retry policies: how long a failed job waits before its next attempt."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from .durations import Duration, seconds
from .exceptions import InvalidOption

DAY = 86400.0


@dataclass(frozen=True)
class RetryPolicy:
    """The base of the three policies."""

    kind: ClassVar[str]

    def delay(self, attempt: int) -> float:
        """Seconds to wait after the given failed attempt, exactly; jitter is added when the policy is used."""
        raise NotImplementedError


@dataclass(frozen=True)
class NoRetry(RetryPolicy):
    """The first failure is the last, whatever max_attempts says."""

    kind = "none"

    def delay(self, attempt: int) -> float:
        return 0.0


@dataclass(frozen=True, init=False)
class Fixed(RetryPolicy):
    """The same delay after every failure; a jitter of None takes BACKOFF_JITTER."""

    kind = "fixed"
    wait: float
    jitter: float | None

    def __init__(self, delay: Duration, jitter: float | None = None) -> None:
        object.__setattr__(self, "wait", seconds(delay, "delay"))
        object.__setattr__(self, "jitter", _fraction(jitter))

    def delay(self, attempt: int) -> float:
        return self.wait


@dataclass(frozen=True, init=False)
class Exponential(RetryPolicy):
    """base, 2·base, 4·base … up to max, or up to a day without one; a jitter of None takes BACKOFF_JITTER."""

    kind = "exponential"
    base: float
    max: float
    jitter: float | None

    def __init__(self, base: Duration = 1, max: Duration | None = None, jitter: float | None = None) -> None:  # noqa: A002
        object.__setattr__(self, "base", seconds(base, "base"))
        object.__setattr__(self, "max", DAY if max is None else seconds(max, "max"))
        object.__setattr__(self, "jitter", _fraction(jitter))

    def delay(self, attempt: int) -> float:
        # 2.0 ** 1000 is still a float, and the ceiling has been reached long before.
        exponent = attempt - 1 if 1 <= attempt <= 1000 else 1000 if attempt > 1000 else 0
        return min(self.base * 2.0**exponent, self.max)


def spread_delay(policy: RetryPolicy, attempt: int, default_jitter: float) -> float:
    """The policy's delay with its jitter added, so that jobs that failed together do not come back together."""
    jitter = getattr(policy, "jitter", None)
    return policy.delay(attempt) * (1 + random.random() * (default_jitter if jitter is None else jitter))


def dump(policy: RetryPolicy) -> str:
    """Write a policy for a job's row."""
    return json.dumps({"kind": policy.kind, **asdict(policy)})


def load(stored: str | dict[str, Any]) -> RetryPolicy:
    """Read a policy from a job's row."""
    data = dict(json.loads(stored) if isinstance(stored, str) else stored)
    match data.pop("kind"):
        case "none":
            return NoRetry()
        case "fixed":
            return Fixed(data["wait"], data["jitter"])
        case "exponential":
            return Exponential(**data)
        case kind:
            raise InvalidOption(f"unknown retry policy {kind!r}")


def _fraction(jitter: float | None) -> float | None:
    if jitter is None:
        return None
    if isinstance(jitter, bool) or not isinstance(jitter, int | float) or not 0 <= jitter <= 10:
        raise InvalidOption(f"jitter must be a fraction from 0 to 10, not {jitter!r}")
    return float(jitter)
