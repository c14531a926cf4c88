from __future__ import annotations

from bisect import bisect_right

import pytest

from djqueue import maintenance
from djqueue.operations import rates
from djqueue.operations.rates import Histogram
from djqueue.sql.throughput import BUCKETS
from tests.conftest import PLAIN
from tests.factories import ThroughputFactory, ago
from tests.tools import statements_sent


def minute(minutes_ago: float):
    return ago(60 * minutes_ago).replace(second=0, microsecond=0)


@pytest.mark.databases(*PLAIN)
def test_sums_of_the_last_minutes_are_exact_before_and_after_a_roll_up(database):
    for at in (0, 3, 4, 30, 59, 70):
        ThroughputFactory(minute=minute(at), queue="email", done=2, failed=1, dead=1)
    ThroughputFactory(minute=minute(1), queue="other", task="t", done=5)
    for _ in range(2):
        assert {queue: (r.done, r.failed, r.dead) for queue, r in rates.by_queue(5).items()} == {
            "email": (6, 3, 3),
            "other": (5, 0, 0),
        }
        assert rates.by_queue(60)["email"].done == 10
        assert rates.by_task(60, ["t"])["t"].done == 5
        assert list(rates.by_task(60, queue="email")) == ["tests.app.tasks.add"]
        maintenance.roll_up()


@pytest.mark.databases(*PLAIN)
def test_the_history_has_a_point_for_every_step(database):
    ThroughputFactory(minute=minute(0), done=3)
    ThroughputFactory(minute=minute(7), done=4, failed=2)
    points = rates.history(60, 5)
    assert len(points) == 12
    assert [(point.done, point.failed) for point in points[-3:]] == [(0, 0), (4, 2), (3, 0)]
    assert rates.history(60, 5, queue="none")[-1].done == 0


@pytest.mark.databases(*PLAIN)
def test_rates_are_read_with_one_statement_beside_the_clock(database):
    with statements_sent() as sent:
        rates.by_queue(60)
    assert len(sent) <= 2


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_quantiles_are_within_the_cell_of_the_exact_one(share):
    values = [0.001 * 1.05**n for n in range(250)]
    histogram = Histogram()
    for value in values:
        histogram.add(bisect_right(BUCKETS, value), 1, value)
    exact = values[int(share * len(values))]
    assert bisect_right(BUCKETS, histogram.quantile(share)) == bisect_right(BUCKETS, exact)


def test_an_empty_histogram_has_no_quantile():
    assert Histogram().quantile(0.5) is None
    assert Histogram().mean is None
