from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import djqueue
from djqueue.core import retries


@pytest.mark.parametrize(
    ("attempt", "delay"), [(0, 2), (1, 2), (2, 4), (3, 8), (4, 16), (5, 20), (1000, 20), (10**9, 20)]
)
def test_exponential_doubles_up_to_its_max(attempt, delay):
    assert djqueue.Exponential(base=2, max=20).delay(attempt) == delay


def test_exponential_without_max_is_limited_to_a_day():
    assert djqueue.Exponential(base=1).delay(200) == 86400
    assert djqueue.Exponential(base=1e9).delay(10**6) == 86400


def test_a_base_of_zero_retries_at_once():
    assert [djqueue.Exponential(base=0).delay(n) for n in (1, 5, 10**6)] == [0, 0, 0]


def test_fixed_is_the_same_every_time():
    assert [djqueue.Fixed(timedelta(seconds=5)).delay(n) for n in (1, 2, 99)] == [5, 5, 5]


def test_no_retry_has_no_delay():
    assert djqueue.NoRetry().delay(1) == 0


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(-5, 10**7))
def test_delays_are_exact_and_bounded(base, most, attempt):
    delay = djqueue.Exponential(base=base, max=most).delay(attempt)
    assert 0 <= delay <= most
    if 1 <= attempt <= 50:
        assert delay == min(base * 2 ** (attempt - 1), most)


@given(st.floats(0, 10))
def test_jitter_adds_up_to_its_fraction(jitter):
    policy = djqueue.Fixed(10, jitter=jitter)
    assert 10 <= retries.spread_delay(policy, 1, default_jitter=0) <= 10 * (1 + jitter)
    assert policy.delay(1) == 10


def test_jitter_of_zero_is_exact_whatever_the_default():
    assert retries.spread_delay(djqueue.Fixed(10, jitter=0), 1, default_jitter=5) == 10


@pytest.mark.parametrize(
    "policy",
    [
        djqueue.NoRetry(),
        djqueue.Fixed(3.5, jitter=0),
        djqueue.Exponential(base=1, max=timedelta(minutes=5)),
        djqueue.Exponential(base=0),
    ],
)
def test_a_policy_survives_the_round_trip(policy):
    assert retries.load(retries.dump(policy)) == policy


@pytest.mark.parametrize(
    "make",
    [
        lambda: djqueue.Fixed(-1),
        lambda: djqueue.Fixed("5"),
        lambda: djqueue.Fixed(1, jitter=-0.1),
        lambda: djqueue.Fixed(1, jitter=True),
        lambda: djqueue.Exponential(base=float("nan")),
        lambda: djqueue.Exponential(base=1, max=-1),
        lambda: retries.load('{"kind": "magic"}'),
    ],
)
def test_bad_policies_are_refused(make):
    with pytest.raises(djqueue.InvalidOption):
        make()
