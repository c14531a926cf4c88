"""The arithmetic of benchmarks.simulate."""

from __future__ import annotations

from uuid import uuid4

import pytest

from benchmarks.queueing import chance_to_wait, threads_for
from benchmarks.simulate_report import verdict

A, B = uuid4(), uuid4()


def test_threads_follow_littles_law():
    assert threads_for(rate=100, duration=0.5, use=1) == 50
    assert threads_for(rate=100, duration=0.5, use=0.7) == 72


@pytest.mark.parametrize(
    ("threads", "busy", "chance"),
    [
        (1, 0.5, 0.5),  # one thread is busy for the share of time that it is used
        (2, 1.0, 1 / 3),  # values from tables of Erlang C
        (4, 2.0, 4 / 23),
        (4, 4.0, 1.0),
        (4, 9.0, 1.0),
    ],
)
def test_the_chance_to_wait_is_that_of_erlang(threads, busy, chance):
    assert chance_to_wait(threads, busy) == pytest.approx(chance)


def test_more_threads_at_the_same_use_let_fewer_jobs_wait():
    chances = [chance_to_wait(4 * hosts, 2 * hosts) for hosts in (1, 2, 5, 10)]
    assert chances == sorted(chances, reverse=True)
    assert chances[-1] < 0.001


def test_each_job_once_is_good():
    assert verdict([A, B], B.bytes + A.bytes, 2)[0]


@pytest.mark.parametrize(
    ("runs", "done"),
    [
        (A.bytes, 2),  # B did not run
        (A.bytes + B.bytes + B.bytes, 2),  # B ran twice
        (A.bytes + A.bytes, 2),
        (A.bytes + B.bytes, 1),  # one is not done
    ],
)
def test_a_job_that_ran_twice_or_not_at_all_is_wrong(runs, done):
    good, text = verdict([A, B], runs, done)
    assert not good
    assert text.startswith("WRONG")
