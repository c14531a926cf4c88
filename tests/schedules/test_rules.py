"""Slots of cron rules and intervals, above all where the clocks change."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from djqueue.exceptions import InvalidOption
from djqueue.schedules.rules import Cron, Every, last_slots
from tests.schedules import dst

DOCS = Path(__file__).parents[2] / "docs" / "guides" / "schedules.md"
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
WINTER = datetime(2026, 1, 15, 12, tzinfo=UTC)


def firings(rule: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """The slots in [start, end)."""
    cron, slot, found = Cron(rule, zone), start - timedelta(seconds=1), []
    while (slot := cron.next(slot)) < end:
        found.append(slot)
    return found


@pytest.mark.parametrize("change", dst.TABLE, ids=lambda change: f"{change.zone} {change.day}")
def test_what_fires_when_the_clocks_change(change):
    zone = ZoneInfo(change.zone)
    day = datetime.fromisoformat(change.day)
    start, end = (at.replace(tzinfo=zone).astimezone(UTC) for at in (day, day + DAY))
    clocks_after = change.clocks.split()[-1]

    def local(rule: str) -> list[str]:
        return [slot.astimezone(zone).strftime("%H:%M %z") for slot in firings(rule, change.zone, start, end)]

    assert ", ".join(local(dst.DAILY)) == change.daily
    assert ", ".join(local(dst.HALF_PAST)) == change.half_past
    assert ", ".join(local(dst.STEPS)) == change.steps
    quarters = local(dst.QUARTERS)
    assert len(quarters) == change.quarters_in_all
    new_offset = quarters[-1][-5:]
    changed = quarters.index(f"{clocks_after} {new_offset}")
    assert ", ".join(quarters[max(0, changed - 2) : changed + 2]) == change.quarters


def test_the_docs_show_that_table():
    text = DOCS.read_text()
    before, _, rest = text.partition(dst.BEGIN)
    shown, _, after = rest.partition(dst.END)
    if os.environ.get("DJQUEUE_WRITE_DOCS"):
        DOCS.write_text(before + dst.BEGIN + dst.markdown() + dst.END + after)
    else:
        assert shown == dst.markdown(), "run this test with DJQUEUE_WRITE_DOCS=1"


ZONES = ["UTC", "Europe/Berlin", "America/New_York", "America/Havana", "Australia/Lord_Howe", "Africa/Casablanca"]
DAYS = [datetime(2026, month, day, tzinfo=UTC) for month in (2, 3, 4, 10, 11) for day in range(1, 29)]
MINUTES = ["0", "30", "*/15", "5-59/20", "*", "0,59"]


def matcher(rule: str) -> Callable[[datetime], bool]:
    """Whether a wall time is in the sets that minute and hour stand for."""
    minutes, hours = croniter.expand(rule)[0][:2]
    return lambda wall: ("*" in minutes or wall.minute in minutes) and ("*" in hours or wall.hour in hours)


def walls(zone: str, start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """Each minute of elapsed time with what the clock on the wall shows."""
    found = []
    while start < end:
        found.append((start, start.astimezone(ZoneInfo(zone)).replace(tzinfo=None)))
        start += MINUTE
    return found


@settings(max_examples=25, deadline=None)
@given(zone=st.sampled_from(ZONES), start=st.sampled_from(DAYS), minute=st.sampled_from(MINUTES))
@pytest.mark.parametrize("hour", ["*", "*/6", "1-4/1"])
def test_a_wide_rule_fires_at_every_minute_that_matches(hour, zone, start, minute):
    rule = f"{minute} {hour} * * *"
    matches = matcher(rule)
    expected = [at for at, wall in walls(zone, start, start + 2 * DAY) if matches(wall)]
    assert firings(rule, zone, start, start + 2 * DAY) == expected


@settings(max_examples=25, deadline=None)
@given(zone=st.sampled_from(ZONES), start=st.sampled_from(DAYS), minute=st.sampled_from(MINUTES))
@pytest.mark.parametrize("hour", ["2", "0-3", "1,2,3", "0,23"])
def test_a_fixed_hour_fires_as_soon_as_the_clock_has_reached_its_time_for_the_first_time(hour, zone, start, minute):
    rule = f"{minute} {hour} * * *"
    matches = matcher(rule)
    expected = []
    elapsed = walls(zone, start - DAY, start + 2 * DAY)
    latest = elapsed[0][1]
    for at, wall in elapsed[1:]:
        reached, latest = latest, max(latest, wall)
        passed = [reached + n * MINUTE for n in range(1, int((latest - reached) / MINUTE) + 1)]
        if any(map(matches, passed)) and at >= start:
            expected.append(at)
    assert firings(rule, zone, start, start + 2 * DAY) == expected


def test_seconds_are_a_sixth_field():
    assert firings("* * * * * */20", "UTC", WINTER, WINTER + MINUTE) == [
        WINTER + timedelta(seconds=n) for n in (0, 20, 40)
    ]


def test_a_slot_is_strictly_later_also_by_less_than_a_second():
    cron = Cron("0 * * * *", "UTC")
    assert cron.next(WINTER) == WINTER + HOUR
    assert cron.next(WINTER - timedelta(microseconds=1)) == WINTER
    assert cron.next(WINTER + timedelta(microseconds=1)) == WINTER + HOUR


def test_slots_are_utc_whatever_the_zone_of_the_argument():
    slot = Cron("0 12 * * *", "Asia/Tokyo").next(WINTER.astimezone(ZoneInfo("America/New_York")))
    assert (slot, slot.tzinfo) == (datetime(2026, 1, 16, 3, tzinfo=UTC), UTC)


def test_a_calendar_day_that_a_time_zone_skipped():
    """Samoa had no 30 December 2011."""
    slots = firings("0 9 * * *", "Pacific/Apia", datetime(2011, 12, 29, tzinfo=UTC), datetime(2011, 12, 31, tzinfo=UTC))
    assert [slot.astimezone(ZoneInfo("Pacific/Apia")).strftime("%d %H:%M") for slot in slots] == [
        "29 09:00",
        "31 00:00",
        "31 09:00",
    ]


@pytest.mark.parametrize("alias", ["@hourly", "@daily", "@Midnight", "@weekly", "@monthly", "@yearly"])
def test_names_for_common_rules(alias):
    assert Cron(alias, "UTC").next(WINTER) > WINTER


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("", "has 0 fields"),
        ("* * * *", "has 4 fields; it must have five"),
        ("* * * * * * 2030", "has 7 fields"),
        ("@reboot", "has 1 fields"),
        ("61 * * * *", "is not valid: .*out of range"),
        ("0 24 * * *", "is not valid"),
        ("every day", "has 2 fields"),
        ("a b c d e", "is not valid"),
        ("*/0 * * * *", "is not valid"),
        ("R * * * *", "H and R are not supported"),
        ("0 h(1-5) * * *", "H and R are not supported"),
        ("0 ٢ * * *", "cron must be a cron rule"),
        ("0 " * 200, "cron must be a cron rule"),
        (5, "cron must be a cron rule"),
        (None, "cron must be a cron rule"),
    ],
)
def test_invalid_cron_expressions_are_refused(rule, message):
    with pytest.raises(InvalidOption, match=message):
        Cron(rule, "UTC")


@pytest.mark.parametrize("rule", ["0 0 30 2 *", "0 0 31 4,6 *", "0 */2 30 2 *"])
def test_a_rule_that_never_matches_is_refused(rule):
    with pytest.raises(InvalidOption, match="never matches a date"):
        Cron(rule, "Europe/Berlin").next(WINTER)


@settings(max_examples=300, deadline=None)
@given(text=st.lists(st.text("0123579*/,-#?LWlwhrmonjafe@ ", min_size=1, max_size=8), min_size=4, max_size=7))
def test_any_text_is_a_valid_rule_or_is_refused(text):
    try:
        cron = Cron(" ".join(text), "Europe/Berlin")
        slot = cron.next(WINTER)
    except InvalidOption:
        return
    assert WINTER < slot < cron.next(slot)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "/etc/localtime", "Europe", "x\x00", None, 5])
def test_unknown_zones_are_refused(zone):
    with pytest.raises(InvalidOption, match="timezone"):
        Cron("* * * * *", zone)


def test_a_leap_day_is_found():
    assert Cron("0 0 29 2 *", "Europe/Berlin").next(WINTER) == datetime(2028, 2, 28, 23, tzinfo=UTC)
    assert Cron("0 */12 29 2 *", "Europe/Berlin").next(WINTER) == datetime(2028, 2, 28, 23, tzinfo=UTC)


def test_an_interval_is_counted_from_its_anchor():
    every = Every(90, WINTER)
    assert every.next(WINTER) == WINTER + timedelta(seconds=90)
    assert every.next(WINTER + timedelta(seconds=89.9)) == WINTER + timedelta(seconds=90)
    assert every.next(WINTER + 1000 * DAY) == WINTER + 1000 * DAY + timedelta(seconds=90)
    assert every.next(WINTER - DAY) == WINTER


@pytest.mark.parametrize("rule", ["0 * * * *", "* 3 * * *", "*/7 */5 * * *", "0 2 * * *"])
@pytest.mark.parametrize("count", [1, 2, 10, 100])
def test_the_last_slots_are_those_that_counting_would_find(rule, count):
    cron = Cron(rule, "Europe/Berlin")
    first, until = cron.next(WINTER), WINTER + 20 * DAY
    counted = [first]
    while (slot := cron.next(counted[-1])) <= until:
        counted.append(slot)
    assert last_slots(cron, first, until, count) == counted[-count:]


def test_the_last_slots_of_intervals_and_of_nothing():
    every = Every(1.5, WINTER)
    assert last_slots(every, WINTER, WINTER + DAY, 2) == [WINTER + DAY - timedelta(seconds=1.5), WINTER + DAY]
    assert last_slots(every, WINTER, WINTER, 5) == [WINTER]
    assert last_slots(every, WINTER + HOUR, WINTER, 5) == []


@pytest.mark.parametrize("rule", ["* * * * * *", "* * * * *", "* * 3 * * *", "* * * 1 * *", "0 2 * * *"])
def test_a_year_of_slots_is_not_counted(rule):
    """The rule of every second has 31 million."""
    cron = Cron(rule, "Europe/Berlin")
    first = cron.next(WINTER)
    took = []
    for _ in range(3):
        began = time.perf_counter()
        slots = last_slots(cron, first, WINTER + 365 * DAY, 100)
        took.append(time.perf_counter() - began)
    assert len(slots) == 100
    assert all(one < other for one, other in pairwise(slots))
    assert cron.next(slots[-1]) > WINTER + 365 * DAY
    assert min(took) < 1
