"""Durations as callers pass them: a number of seconds or a timedelta."""

from __future__ import annotations

import math
from datetime import timedelta

from djqueue.exceptions import InvalidOption

Duration = float | timedelta

# Every database can add this much to the current time without overflow.
MAX_SECONDS = 100 * 366 * 86400.0


def seconds(value: Duration, name: str) -> float:
    """Return a duration in seconds. Raise InvalidOption, naming the option, if it is not valid."""
    if isinstance(value, timedelta):
        return within_range(value.total_seconds(), name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidOption(f"{name} must be seconds or a timedelta, got {value!r:.80}")
    return within_range(float(value), name)


def within_range(value: float, name: str) -> float:
    if math.isnan(value) or not 0 <= value <= MAX_SECONDS:
        raise InvalidOption(f"{name} must be between 0 seconds and 100 years, got {value}")
    return value
