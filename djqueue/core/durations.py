"""Durations: as callers pass them (a number of seconds or a timedelta), as they are typed, and as they are shown."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from django.utils.translation import gettext as _

from djqueue.exceptions import InvalidOption

from .shown import shown

Duration = float | timedelta

# Every database can add this much to the current time without overflow.
MAX_SECONDS = 100 * 366 * 86400.0

# The units in which a duration can be typed, in seconds.
UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_TYPED = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([a-z]*)")


def seconds(value: Duration, name: str) -> float:
    """Return a duration in seconds. Raise InvalidOption, naming the option, if it is not valid."""
    if isinstance(value, timedelta):
        return within_range(value.total_seconds(), name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidOption(f"{name} must be seconds or a timedelta, got {shown(value)}")
    return within_range(value, name)  # an integer may be too large for a float


def within_range(value: float, name: str) -> float:
    if not 0 <= value <= MAX_SECONDS:  # NaN is in no range
        raise InvalidOption(f"{name} must be between 0 seconds and 100 years, got {shown(value)}")
    return float(value)


def parse(text: str) -> float | None:
    """Return the seconds of a typed duration such as 90, 30s, 5m, 2h, 1d or 1w; None if it is not one."""
    typed = _TYPED.fullmatch(text.strip().lower())
    if typed is None or typed[2] not in UNITS:
        return None
    value = float(typed[1]) * UNITS[typed[2]]
    return value if value <= MAX_SECONDS else None


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
        return _("%(h)d h %(m)d min") % {"h": hours, "m": minutes} if minutes else _("%(h)d h") % {"h": hours}
    days, hours = divmod(hours, 24)
    return _("%(d)d d %(h)d h") % {"d": days, "h": hours} if hours else _("%(d)d d") % {"d": days}


def short(seconds: float) -> str:
    """Return a duration in one unit, for the columns of a table: 12 ms, 3.4 s, 5 min, 2.2 h, 3 d."""
    if seconds < 9.95:
        return in_words(seconds)
    if seconds < 59.5:
        return _("%(s)d s") % {"s": round(seconds)}
    if seconds < 3570:
        return _("%(m)d min") % {"m": round(seconds / 60)}
    if seconds < 2 * 86400:
        return _("%(count).1f h") % {"count": seconds / 3600}
    return _("%(d)d d") % {"d": seconds // 86400}


def instant(epoch: float) -> datetime:
    """Return the instant so many seconds after the epoch, or the nearest that Python can represent; never raises."""
    try:
        return datetime.fromtimestamp(epoch, UTC)
    except (OverflowError, ValueError):
        return (datetime.max if epoch > 0 else datetime.min).replace(tzinfo=UTC)
