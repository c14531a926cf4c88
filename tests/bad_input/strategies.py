"""Unlikely and hostile values, and how the tests of this folder draw them: the same ones in every run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

every_database = pytest.mark.databases("postgresql", "postgresql_bound", "sqlite", "mysql")


def examples(count: int) -> settings:
    """Draw this many; the database is emptied once per test, and each example leaves nothing behind."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


# Texts with a meaning for SQL, drivers, formats, terminals, paths and options.
HOSTILE_TEXTS = [
    "",
    " ",
    "a ",
    "\x00",
    "a\x00b",
    "\ud800",
    "a\udfff",
    "\ufffe\uffff",
    "\U0001f4a5" * 3,
    "e\u0301 \u00e9 \u00df \u0130 \u202e",
    "\x1b[31m\r\n\t",
    "'; DROP TABLE djqueue_job; --",
    '"\\`',
    "%s %(a)s %% {0} {a} {",
    "$decimal",
    "../../etc/passwd",
    "--",
    "-1",
    "null",
    "NaN",
    "1e999",
    "9" * 5000,
    "x" * 256,
    "\u00fc" * 70_000,
    "os.system",
    "=1",
    "a=b,c",
    "00000000-0000-0000-0000-000000000000",
    "{00000000-0000-7000-8000-000000000000}",
]
HOSTILE_VALUES: list[Any] = [
    *HOSTILE_TEXTS,
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    -(2**63),
    2**64,
    10**400,
    10**5000,
    -(10**5000),
    0.1,
    -0.0,
    5e-324,
    1e308,
    float("nan"),
    float("inf"),
    Decimal("NaN"),
    Decimal("1e999999"),
    b"",
    b"\xff\x00",
    object(),
    ValueError,
    lambda: None,
    ...,
    [],
    (),
    {},
    set(),
    {1: 2},
    {"": {"\x00": 1}},
    {"$decimal": "no"},
    {"$dict": {"$model": ["os.system", "default", 1]}},
    nested(99),
    nested(100),
    nested(5000),
    UUID(int=0),
    datetime(1, 1, 1),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
    datetime(8999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone(timedelta(hours=-14))),
    datetime(2030, 1, 1, tzinfo=UTC),
    timedelta.max,
    timedelta.min,
    timedelta(microseconds=1),
]

any_text = st.text(st.characters(exclude_categories=[]), max_size=30) | st.sampled_from(HOSTILE_TEXTS)
plain_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
zones = st.sampled_from([None, UTC, timezone(timedelta(hours=-14))]) | st.timezones()
typed = (
    st.dates()
    | st.datetimes(timezones=zones, allow_imaginary=False)
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.decimals(allow_nan=False)
    | st.binary(max_size=20)
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**700), 10**700)
    | st.floats()
    | plain_text
    | st.sampled_from(["$decimal", "$dict", "$", "$model"])
    | typed
)
# Most of these can be stored.
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain_text | st.just("$x"), inner, max_size=4),
    max_leaves=12,
)
# Most of these cannot.
anything = st.sampled_from(HOSTILE_VALUES) | any_text | values | st.lists(any_text, max_size=3)
