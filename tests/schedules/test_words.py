"""Whatever a rule is said to be in words, it fires at exactly the times that the words name."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from djqueue.exceptions import InvalidOption
from djqueue.schedules.rules import Cron
from djqueue.schedules.words import describe

SECOND = timedelta(seconds=1)
WORDS = {
    "30 2 * * mon-fri": "At 02:30, Monday to Friday",
    "* * * * *": "Every minute",
    "*/5 * * * *": "Every 5 minutes",
    "* 9 * * *": "Every minute from 09:00 to 09:59, every day",
    "0 * * * *": "Every hour at minute 0",
    "5,35 * * * *": "Every hour at minutes 5 and 35",
    "0 */2 * * *": "Every 2 hours at minute 0, every day",
    "*/15 9-17 * * 1-5": "Every 15 minutes from 09:00 to 17:59, Monday to Friday",
    "0 9-17 * * *": "Every hour from 09:00 to 17:00, every day",
    "0 8,12,18 * * sat,sun": "At 08:00, 12:00 and 18:00, Saturday and Sunday",
    "0 0 1,15 1,7 *": "At 00:00, on days 1 and 15 of the month in January and July",
    "0 0 1-7 * *": "At 00:00, on days 1 to 7 of the month",
    "0 0 13 * 5": "At 00:00, on day 13 of the month or on Friday",
    "5 * * jan-mar *": "Every hour at minute 5, in January to March",
    "0 3 * * 7": "At 03:00, Sunday",
    "@daily": "At 00:00, every day",
    "@WEEKLY": "At 00:00, Sunday",
    "* * * * * */10": "Every 10 seconds",
    "0 2 * * * 0": "At 02:00, every day",
}
# Exotic, invalid, or without a plain form.
AS_THEY_ARE = [
    *("0 0 L * *", "0 12 * * 5#3", "*/7 * * * *", "0 22-2 * * *", "1-59/2 * * * *", "5/15 * * * *", "0 2 * * * 30"),
    *("* * *", "x", "", "61 * * * *", "0 mon * * *", "0 0 ? * *", "*/0 * * * *", "5 0,3,7-9,20-23 * * *"),
]


@pytest.mark.parametrize("rule", WORDS)
def test_a_rule_in_words(rule):
    assert describe(rule) == WORDS[rule]


@pytest.mark.parametrize("rule", AS_THEY_ARE)
def test_a_rule_without_a_plain_form_is_shown_as_it_is(rule):
    assert describe(rule) == rule


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 10, 12, 15, 20, 30])
    stepped = st.tuples(st.one_of(st.just("*"), span), step).map(lambda pair: f"{pair[0]}/{pair[1]}")
    listed = st.lists(st.one_of(number.map(str), span), min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), number.map(str), listed, stepped)


RULES = st.tuples(field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7)).map(" ".join)
TIMES = st.datetimes(datetime(2025, 1, 1), datetime(2029, 1, 1), timezones=st.just(UTC)).map(
    lambda at: at.replace(second=0, microsecond=0)
)


@settings(max_examples=200, deadline=None)
@example("0 0 13 * 0-7", datetime(2026, 1, 1, tzinfo=UTC))
@example("0 0 1-31 * 5", datetime(2026, 1, 1, tzinfo=UTC))
@example("0 0 */1 * 5", datetime(2026, 1, 1, tzinfo=UTC))
@given(RULES, TIMES)
def test_the_words_agree_with_the_rule(rule, start):
    said = describe(rule)
    assume(said != rule)
    try:
        cron = Cron(rule, "UTC")
        slots = [cron.next(start)]
    except InvalidOption:
        assume(False)
    for _ in range(3):
        slots.append(cron.next(slots[-1]))
    named = meaning(said)
    for slot in slots:
        assert named(slot), (said, slot)
    # And no other time: before and after each slot, at the same time of other days, and at the start.
    near = [slot + timedelta(minutes=m, hours=h, days=d) for slot in slots for m, h, d in NEIGHBOURS]
    for at in [start, *near]:
        assert named(at) == (cron.next(at - SECOND) == at), (said, at)


NEIGHBOURS = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1), (0, 0, 7), (0, 0, 31)]


def meaning(text: str) -> Callable[[datetime], bool]:
    """Read the words as an operator would, and return whether they name a time."""
    time, date = [*re.split(r", (?=[a-zA-Z])", text, maxsplit=1), ""][:2]
    return lambda at: of_time(time)(at) and of_date(date)(at)


def of_time(text: str) -> Callable[[datetime], bool]:
    if text.startswith("At "):
        return lambda at: f"{at:%H:%M}" in re.split(", | and ", text[3:])
    match = re.fullmatch(
        r"Every (?:(?P<n>\d+) )?(?P<unit>minute|hour)s?(?: at minutes? (?P<at>.*?))?"
        r"(?: from (?P<first>\S+) to (?P<last>\S+))?",
        text,
    )
    assert match, text
    n, unit = int(match["n"] or 1), match["unit"]
    minutes = re.split(", | and ", match["at"]) if match["at"] else [match["first"][3:]] if match["first"] else []

    def named(at: datetime) -> bool:
        if match["first"] and not match["first"] <= f"{at:%H:%M}" <= match["last"]:
            return False
        if unit == "minute":
            return at.minute % n == 0
        return at.hour % n == 0 and at.minute in map(int, minutes)

    return named


def of_date(text: str) -> Callable[[datetime], bool]:
    date, months = re.fullmatch(r"(.*?) ?(?:\bin ((?:January|Fe|Ma|Ap|Ju|Au|Se|Oc|No|De).*))?", text).groups()
    days, _, weekdays = date.rpartition(" or on ") if " or on " in date else (date, "", "")
    if days and not days.startswith("on "):
        days, weekdays = "", days

    def named(at: datetime) -> bool:
        if months and at.month not in numbers(months, list(calendar.month_name)):
            return False
        if weekdays == "every day" or not (days or weekdays):
            return True
        by_day = days and at.day in numbers(re.fullmatch("on days? (.*) of the month", days)[1])
        return bool(by_day or (weekdays and at.weekday() in numbers(weekdays, list(calendar.day_name))))

    return named


def numbers(text: str, names: list[str] | None = None) -> set[int]:
    found: set[int] = set()
    for part in re.split(", | and ", text):
        ends = [names.index(end) if names else int(end) for end in part.split(" to ")]
        found.update(range(ends[0], ends[-1] + 1))
    return found
