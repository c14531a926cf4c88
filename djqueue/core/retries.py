"""Retry policies: the delay between a failed attempt and the next one."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from djqueue.exceptions import InvalidOption

from .durations import Duration, seconds
from .shown import shown

DAY = 86400.0


@dataclass(frozen=True)
class RetryPolicy:
    """Base class of the retry policies."""

    kind: ClassVar[str]

    def delay(self, attempt: int) -> float:
        """Return the delay after a failed attempt in seconds, without jitter."""
        raise NotImplementedError


@dataclass(frozen=True)
class NoRetry(RetryPolicy):
    """Never retry, whatever max_attempts is."""

    kind = "none"

    def delay(self, attempt: int) -> float:
        return 0.0


@dataclass(frozen=True, init=False)
class Fixed(RetryPolicy):
    """The same delay after every failure. A jitter of None means BACKOFF_JITTER."""

    kind = "fixed"
    wait: float
    jitter: float | None

    def __init__(self, delay: Duration, jitter: float | None = None) -> None:
        object.__setattr__(self, "wait", seconds(delay, "delay"))
        object.__setattr__(self, "jitter", _check_jitter(jitter))

    def delay(self, attempt: int) -> float:
        return self.wait


@dataclass(frozen=True, init=False)
class Exponential(RetryPolicy):
    """Delays of base, 2·base, 4·base … up to max (default: one day). A jitter of None means BACKOFF_JITTER."""

    kind = "exponential"
    base: float
    max: float
    jitter: float | None

    def __init__(self, base: Duration = 1, max: Duration | None = None, jitter: float | None = None) -> None:  # noqa: A002
        object.__setattr__(self, "base", seconds(base, "base"))
        object.__setattr__(self, "max", DAY if max is None else seconds(max, "max"))
        object.__setattr__(self, "jitter", _check_jitter(jitter))

    def delay(self, attempt: int) -> float:
        # 2.0 ** 1000 does not overflow, and max is reached long before.
        exponent = attempt - 1 if 1 <= attempt <= 1000 else 1000 if attempt > 1000 else 0
        return min(self.base * 2.0**exponent, self.max)


def spread_delay(policy: RetryPolicy, attempt: int, default_jitter: float) -> float:
    """Return the policy's delay plus jitter, so that jobs that failed together are not retried together."""
    jitter = getattr(policy, "jitter", None)
    return policy.delay(attempt) * (1 + random.random() * (default_jitter if jitter is None else jitter))


def dump(policy: RetryPolicy) -> str:
    """Return the JSON text of a policy, for a job's row."""
    return json.dumps({"kind": policy.kind, **asdict(policy)})


def load(stored: str | dict[str, Any]) -> RetryPolicy:
    """Return the policy stored in a job's row."""
    data = dict(json.loads(stored) if isinstance(stored, str) else stored)
    match data.pop("kind"):
        case "none":
            return NoRetry()
        case "fixed":
            return Fixed(data["wait"], data["jitter"])
        case "exponential":
            return Exponential(**data)
        case kind:
            raise InvalidOption(f"Unknown retry policy {kind!r}. Valid policies: none, fixed, exponential")


def _check_jitter(jitter: float | None) -> float | None:
    if jitter is None:
        return None
    if isinstance(jitter, bool) or not isinstance(jitter, int | float) or not 0 <= jitter <= 10:
        raise InvalidOption(f"jitter must be a number from 0 to 10, got {shown(jitter)}")
    return float(jitter)
