"""Durations as users write them: seconds or a timedelta."""

from __future__ import annotations

import math
from datetime import timedelta

from .exceptions import InvalidOption

Duration = float | timedelta

# What every database's interval arithmetic can add to the present without overflow.
MAX_SECONDS = 100 * 366 * 86400.0


def seconds(value: Duration, name: str) -> float:
    """Give a duration in seconds, or raise InvalidOption naming the option."""
    if isinstance(value, timedelta):
        return within_range(value.total_seconds(), name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidOption(f"{name} must be seconds or a timedelta, not {type(value).__name__}")
    return within_range(float(value), name)


def within_range(value: float, name: str) -> float:
    if math.isnan(value) or not 0 <= value <= MAX_SECONDS:
        raise InvalidOption(f"{name} must be between 0 seconds and 100 years, not {value}")
    return value
