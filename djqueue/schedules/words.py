"""Cron rules in words: "At 02:30, Monday to Friday". A rule that has no plain form in words is shown as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from django.utils.dates import MONTHS, WEEKDAYS
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from djqueue.exceptions import InvalidOption

from .rules import fields_of

MOST_TIMES = 6  # of a day that are listed
_WEEKDAYS = {name: number for number, name in enumerate("sun mon tue wed thu fri sat".split())}
_MONTHS = {name: n for n, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_PART = re.compile(r"(?:(\*)|(\d+|[a-z]{3})(?:-(\d+|[a-z]{3}))?)(?:/(\d+))?")


def describe(cron: str) -> str:
    """Return a cron rule in words, or the rule itself if it cannot be put in words."""
    try:
        fields = fields_of(cron)
    except InvalidOption:
        return cron
    return _describe(fields) or cron


def _describe(fields: Sequence[str]) -> str | None:
    if len(fields) == 6 and fields[5] not in ("0", "00"):
        return _seconds(fields)
    minutes, hours = _values(fields[0], 0, 59), _values(fields[1], 0, 23)
    days, months = _values(fields[2], 1, 31), _values(fields[3], 1, 12, _MONTHS)
    weekdays = _values(fields[4], 0, 7, _WEEKDAYS)
    if not (minutes and hours and days and months and weekdays):
        return None
    if "*" not in (fields[2], fields[4]) and (len(days) == 31 or len({day % 7 for day in weekdays}) == 7):
        return None  # a date needs to match only one of two restricted fields, here one that matches every date
    time = _time(minutes, hours)
    date = _date(days, sorted({(day - 1) % 7 for day in weekdays}), daily=len(hours) < 24)
    if time is None or date is None:
        return None
    if len(months) < 12:
        date += " " + _("in %(months)s") % {"months": _ranges(months, lambda month: str(MONTHS[month]))}
    return f"{time}, {date.strip()}" if date else time


def _seconds(fields: Sequence[str]) -> str | None:
    step = _step(_values(fields[5], 0, 59) or [], 60)
    if step is None or fields[:5] != ["*"] * 5:
        return None
    return ngettext("Every second", "Every %(count)d seconds", step) % {"count": step}


def _values(field: str, low: int, high: int, names: Mapping[str, int] | None = None) -> list[int] | None:
    """Return the numbers that a field matches, or None if it has anything but numbers, names, ranges and steps."""
    found: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        everything, first, last, step = match.groups()
        if step and first and not last:  # 5/15: readings differ
            return None
        start, end = (low, high) if everything else (_number(first, names), _number(last or first, names))
        if start is None or end is None or not low <= start <= end <= high or step == "0":
            return None
        if last and (start == end or end == 7 == high):  # 3-3 and 5-7: croniter's own readings
            return None
        if everything and high == 7:
            end = 6  # Sunday is 0 and 7
        found.update(range(start, end + 1, int(step or 1)))
    return sorted(found)


def _number(text: str, names: Mapping[str, int] | None) -> int | None:
    return int(text) if text.isdigit() else (names or {}).get(text)


def _time(minutes: list[int], hours: list[int]) -> str | None:
    step, every_hour = _step(minutes, 60), len(hours) == 24
    if step is not None:
        every = ngettext("Every minute", "Every %(count)d minutes", step) % {"count": step}
        if every_hour:
            return every
        if _is_range(hours):
            return _("%(every)s from %(first)s to %(last)s") % {
                "every": every,
                "first": _clock(hours[0], 0),
                "last": _clock(hours[-1], 59),
            }
        return None
    if every_hour:
        text = ngettext("Every hour at minute %(minutes)s", "Every hour at minutes %(minutes)s", len(minutes))
        return text % {"minutes": _listed(map(str, minutes))} if len(minutes) <= MOST_TIMES else None
    if len(minutes) * len(hours) <= MOST_TIMES:
        return _("At %(times)s") % {"times": _listed(_clock(hour, minute) for hour in hours for minute in minutes)}
    if len(minutes) > 1:
        return None
    [minute] = minutes
    if (apart := _step(hours, 24)) is not None:
        return _("Every %(count)d hours at minute %(minute)d") % {"count": apart, "minute": minute}
    if _is_range(hours):
        return _("Every hour from %(first)s to %(last)s") % {
            "first": _clock(hours[0], minute),
            "last": _clock(hours[-1], minute),
        }
    return None


def _date(days: list[int], weekdays: list[int], *, daily: bool) -> str | None:
    """Return the days; weekdays are counted from Monday. If both are restricted, a date needs to match only one."""
    on_weekdays = _ranges(weekdays, lambda day: str(WEEKDAYS[day]))
    on_days = ngettext("on day %(days)s of the month", "on days %(days)s of the month", len(days)) % {
        "days": _ranges(days, str)
    }
    match (len(days) < 31, len(weekdays) < 7):
        case (True, True):
            return _("%(days)s or on %(weekdays)s") % {"days": on_days, "weekdays": on_weekdays}
        case (True, False):
            return on_days
        case (False, True):
            return on_weekdays
    return _("every day") if daily else ""


def _step(values: list[int], whole: int) -> int | None:
    """Return n if the values are every nth, counted from 0, without a shorter gap at the end."""
    if len(values) < 2 or values[0] != 0:
        return 1 if values == list(range(whole)) else None
    step = values[1]
    return step if whole % step == 0 and values == list(range(0, whole, step)) else None


def _is_range(values: list[int]) -> bool:
    return values == list(range(values[0], values[-1] + 1))


def _ranges(values: list[int], name: Callable[[int], str]) -> str:
    """Return values as a list in which three or more in a row are a range."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    parts: list[str] = []
    for run in runs:
        if len(run) > 2:
            parts.append(_("%(first)s to %(last)s") % {"first": name(run[0]), "last": name(run[-1])})
        else:
            parts += map(name, run)
    return _listed(parts)


def _listed(parts: Iterable[Any]) -> str:
    *others, last = map(str, parts)
    return _("%(others)s and %(last)s") % {"others": ", ".join(others), "last": last} if others else last


def _clock(hour: int, minute: int) -> str:
    return f"{hour:02}:{minute:02}"
