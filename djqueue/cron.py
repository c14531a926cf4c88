"""When schedules fire: cron rules in a time zone, and intervals. The only module that knows croniter.

croniter finds wall times; what they are in UTC, and what becomes of them when the clocks change, is decided here. Slots
are UTC instants, and each is computed from another one, never from the host's clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Protocol
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, CroniterError, croniter

from .exceptions import InvalidOption

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
LONGEST = 255
_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# croniter would draw a random time, another one in every process.
_RANDOM = re.compile(r"(^|[\s,])[hr](?![a-z])")


class Rule(Protocol):
    """Anything that has slots, a second apart or more."""

    def next(self, after: datetime) -> datetime:
        """The first slot strictly after an instant; raises InvalidOption when there is none."""


class Cron:
    """A cron rule in a time zone: five fields, or a sixth for seconds.

    With a fixed hour it fires once for each of its wall times: in a repeated hour at the first, and for a time that was
    skipped at the first instant after the gap. With `*` or a step in the hour it follows elapsed time: it fires at
    every instant whose wall time matches, twice in a repeated hour and never in a skipped one.
    """

    def __init__(self, text: str, timezone: str) -> None:
        self.text = text
        self.zone = zone(timezone)
        fields = _fields(text)
        try:
            self._croniter = croniter(" ".join(fields), datetime(2000, 1, 1))
        except (CroniterError, ValueError, KeyError) as error:
            raise InvalidOption(f"cron {text!r} cannot be read: {error}") from None
        self.follows_elapsed_time = "*" in fields[1] or "/" in fields[1]

    def next(self, after: datetime) -> datetime:
        # Slots are whole seconds, so this is as strict as before.
        after = after.astimezone(UTC).replace(microsecond=0)
        try:
            return self._next_by_elapsed_time(after) if self.follows_elapsed_time else self._next_by_wall_time(after)
        except (CroniterBadDateError, OverflowError):
            raise InvalidOption(f"cron {self.text!r} never comes") from None

    def _next_by_wall_time(self, after: datetime) -> datetime:
        wall = self._wall(after)
        while True:
            wall = self._next_wall(wall)
            slot = self._instant(wall)
            if slot > after:  # in the second pass of a repeated hour, its times have fired in the first
                return slot

    def _next_by_elapsed_time(self, after: datetime) -> datetime:
        """Look under one offset from UTC, and go on under the next one when it changes before something was found."""
        start, wall = after, self._wall(after)
        while True:
            slot = start + (self._next_wall(wall) - self._wall(start))
            change = self._first_change(start, slot)
            if change is None:
                return slot
            start, wall = change, self._wall(change) - SECOND  # a match at the change itself counts

    def _next_wall(self, wall: datetime) -> datetime:
        found: datetime = self._croniter.get_next(datetime, start_time=wall)
        return found

    def _wall(self, instant: datetime) -> datetime:
        return instant.astimezone(self.zone).replace(tzinfo=None)

    def _instant(self, wall: datetime) -> datetime:
        """The first instant of a wall time; of a skipped one, the first instant after the gap."""
        instant = wall.replace(tzinfo=self.zone).astimezone(UTC)
        if self._wall(instant) == wall:
            return instant
        return self._change(wall.replace(tzinfo=self.zone, fold=1).astimezone(UTC), instant)

    def _first_change(self, start: datetime, end: datetime) -> datetime | None:
        """The first instant after `start`, up to `end`, with another offset than at `start`."""
        while start < end:
            step = min(start + DAY, end)
            if self._offset(step) != self._offset(start):
                return self._change(start, step)
            start = step
        return None

    def _change(self, low: datetime, high: datetime) -> datetime:
        """The instant between two of different offsets at which the second one begins."""
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
    """An interval, counted from a slot that is known."""

    def __init__(self, seconds: float, anchor: datetime) -> None:
        self.step = timedelta(seconds=seconds)
        self.anchor = anchor

    def next(self, after: datetime) -> datetime:
        if after < self.anchor:
            return self.anchor
        return self.anchor + ((after - self.anchor) // self.step + 1) * self.step


def zone(name: str) -> ZoneInfo:
    """A time zone by name, or InvalidOption."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError, TypeError):
        raise InvalidOption(f"timezone {name!r:.80} is not known; a name such as 'Europe/Berlin' is") from None


def last_slots(rule: Rule, first: datetime, until: datetime, count: int) -> list[datetime]:
    """The last `count` slots from `first`, which is one, to `until`; the cost does not depend on how many there are.

    A window that ends with `until` grows until it holds enough, and shrinks when a burst made it hold far too many.
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


def _fields(text: str) -> list[str]:
    if not isinstance(text, str) or len(text) > LONGEST or not text.isascii():
        raise InvalidOption(f"cron must be a rule such as '*/5 * * * *', not {text!r:.80}")
    lowered = text.lower().strip()
    fields = _ALIASES.get(lowered, lowered).split()
    if len(fields) not in (5, 6):
        raise InvalidOption(
            f"cron {text!r} has {len(fields)} fields; it needs five (minute, hour, day, month, weekday), "
            "and may have a sixth for seconds"
        )
    if _RANDOM.search(" ".join(fields)):
        raise InvalidOption(f"cron {text!r} cannot be read: H and R are not known here")
    return fields
