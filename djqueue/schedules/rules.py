"""When schedules fire: cron rules in a time zone, and intervals. Only this module uses croniter.

croniter finds wall times; this module converts them to UTC and decides what happens at clock changes. Slots are times
in UTC, and each is computed from another one, never from the host's clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Protocol
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, CroniterError, croniter

from djqueue.core.shown import shown
from djqueue.exceptions import InvalidOption

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
MAX_LENGTH = 255
_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# croniter would choose a random time, a different one in every process.
_RANDOM = re.compile(r"(^|[\s,])[hr](?![a-z])")


class Rule(Protocol):
    """A sequence of slots that are at least one second apart."""

    def next(self, after: datetime) -> datetime:
        """Return the first slot strictly after a time. Raise InvalidOption if there is none."""


class Cron:
    """A cron rule in a time zone: five fields, and optionally a sixth for seconds.

    A rule with a fixed hour fires once for each of its wall times: the first time in a repeated hour, and at the end of
    the gap for a skipped time. A rule with `*` or a step in the hour follows elapsed time: it fires whenever the wall
    time matches, twice in a repeated hour and never in a skipped one.
    """

    def __init__(self, text: str, timezone: str) -> None:
        self.text = text
        self.zone = zone(timezone)
        fields = fields_of(text)
        try:
            self._croniter = croniter(" ".join(fields), datetime(2000, 1, 1))
        except (CroniterError, ValueError, KeyError) as error:
            raise InvalidOption(f"cron {text!r} is not valid: {error}") from None
        self.follows_elapsed_time = "*" in fields[1] or "/" in fields[1]

    def next(self, after: datetime) -> datetime:
        # Slots are whole seconds, so the result is still strictly after the given time.
        after = after.astimezone(UTC).replace(microsecond=0)
        try:
            return self._next_by_elapsed_time(after) if self.follows_elapsed_time else self._next_by_wall_time(after)
        except (CroniterBadDateError, OverflowError):
            raise InvalidOption(f"cron {self.text!r} never matches a date") from None

    def _next_by_wall_time(self, after: datetime) -> datetime:
        wall = self._wall(after)
        while True:
            wall = self._next_wall(wall)
            slot = self._instant(wall)
            if slot > after:  # the second pass of a repeated hour fires nothing again
                return slot

    def _next_by_elapsed_time(self, after: datetime) -> datetime:
        """Search under one UTC offset, and go on under the next one if the offset changes before a match."""
        start, wall = after, self._wall(after)
        while True:
            slot = start + (self._next_wall(wall) - self._wall(start))
            change = self._first_change(start, slot)
            if change is None:
                return slot
            start, wall = change, self._wall(change) - SECOND  # include a match at the change itself

    def _next_wall(self, wall: datetime) -> datetime:
        found: datetime = self._croniter.get_next(datetime, start_time=wall)
        return found

    def _wall(self, instant: datetime) -> datetime:
        return instant.astimezone(self.zone).replace(tzinfo=None)

    def _instant(self, wall: datetime) -> datetime:
        """Return the first time in UTC of a wall time; of a skipped wall time, the end of the gap."""
        instant = wall.replace(tzinfo=self.zone).astimezone(UTC)
        if self._wall(instant) == wall:
            return instant
        return self._change(wall.replace(tzinfo=self.zone, fold=1).astimezone(UTC), instant)

    def _first_change(self, start: datetime, end: datetime) -> datetime | None:
        """Return the first time after `start`, up to `end`, with another UTC offset; None if there is none."""
        while start < end:
            step = min(start + DAY, end)
            if self._offset(step) != self._offset(start):
                return self._change(start, step)
            start = step
        return None

    def _change(self, low: datetime, high: datetime) -> datetime:
        """Return the time between two times of different UTC offsets at which the offset changes."""
        before = self._offset(low)
        while high - low > SECOND:
            middle = low + (high - low) // 2
            if self._offset(middle) == before:
                low = middle
            else:
                high = middle
        return high.replace(microsecond=0)

    def _offset(self, instant: datetime) -> timedelta | None:
        return instant.astimezone(self.zone).utcoffset()


class Every:
    """An interval, counted from a known slot."""

    def __init__(self, seconds: float, anchor: datetime) -> None:
        self.step = timedelta(seconds=seconds)
        self.anchor = anchor

    def next(self, after: datetime) -> datetime:
        if after < self.anchor:
            return self.anchor
        return self.anchor + ((after - self.anchor) // self.step + 1) * self.step


def zone(name: str) -> ZoneInfo:
    """Return a time zone by name. Raise InvalidOption if it is unknown."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError, TypeError):
        raise InvalidOption(f"timezone must be an IANA name such as 'Europe/Berlin', got {shown(name)}") from None


def last_slots(rule: Rule, first: datetime, until: datetime, count: int) -> list[datetime]:
    """Return the last `count` slots from `first`, itself a slot, to `until`, at a cost independent of their number.

    A window that ends at `until` grows until it holds enough slots, and shrinks if a burst made it hold far too many.
    """

    def window(start: datetime) -> list[datetime]:
        return list(islice(takewhile(lambda slot: slot <= until, _after(rule, start)), 2 * count + 1))

    found = [first, *window(first)] if first <= until else []
    if len(found) <= 2 * count:
        return found[-count:]
    short, long = timedelta(0), count * SECOND
    while len(found := window(until - long)) < count:
        short, long = long, 2 * long
    while len(found) > 2 * count:
        middle = (short + long) / 2
        fewer = window(until - middle)
        if len(fewer) < count:
            short = middle
        else:
            long, found = middle, fewer
    return found[-count:]


def _after(rule: Rule, slot: datetime) -> Iterator[datetime]:
    while True:
        slot = rule.next(slot)
        yield slot


def fields_of(text: str) -> list[str]:
    if not isinstance(text, str) or len(text) > MAX_LENGTH or not text.isascii():
        raise InvalidOption(f"cron must be a cron rule such as '*/5 * * * *', got {shown(text)}")
    lowered = text.lower().strip()
    fields = _ALIASES.get(lowered, lowered).split()
    if len(fields) not in (5, 6):
        raise InvalidOption(
            f"cron {text!r} has {len(fields)} fields; it must have five (minute, hour, day, month, weekday), "
            "or a sixth for seconds"
        )
    if _RANDOM.search(" ".join(fields)):
        raise InvalidOption(f"cron {text!r} is not valid: H and R are not supported")
    return fields
