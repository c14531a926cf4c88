"""Durations as callers pass them, a number of seconds or a timedelta, and as people read them."""

from __future__ import annotations

import math
from datetime import timedelta

from django.utils.translation import gettext as _

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


def in_words(seconds: float) -> str:
    """Return a duration in at most two units: 12 ms, 3.4 s, 5 min, 2 h 10 min, 3 d 4 h."""
    if seconds < 1:
        return _("%(count)d ms") % {"count": max(0, round(seconds * 1000))}
    if seconds < 60:
        return _("%(count).1f s") % {"count": seconds}
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return (
            _("%(m)d min %(s)d s") % {"m": minutes, "s": rest}
            if rest and minutes < 10
            else _("%(m)d min") % {"m": minutes}
        )
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return _("%(h)d h %(m)d min") % {"h": hours, "m": minutes}
    return _("%(d)d d %(h)d h") % {"d": hours // 24, "h": hours % 24}
