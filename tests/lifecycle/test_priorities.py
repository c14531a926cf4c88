"""A priority is any integer of 64 bits."""

from __future__ import annotations

import pytest

import djqueue
from djqueue import schedules
from djqueue.models import Schedule
from tests.app.tasks import add
from tests.factories import DeadJobFactory
from tests.tools import rows

LARGEST = 2**63 - 1


def test_jobs_are_claimed_in_the_order_of_wide_priorities(database):
    priorities = [2**40, -LARGEST, 0, LARGEST, -(2**40)]
    for priority in priorities:
        add.using(priority=priority).enqueue(1)
    many = add.enqueue_many([add.call(n).using(priority=2**41) for n in range(60)])
    claimed = djqueue.Queue("default").claim(100)
    assert [job.priority for job in claimed] == sorted([*priorities, *[2**41] * len(many)])


@pytest.mark.parametrize("priority", [2**40, -(2**40)])
def test_a_wide_priority_is_kept_through_a_jobs_life(database, priority):
    handle = add.enqueue(1)
    assert djqueue.reschedule(handle.id, priority=priority)
    [job] = djqueue.Queue("default").claim()
    assert job.priority == priority
    job.nack("boom")
    assert handle.job().priority == priority
    assert djqueue.reschedule(handle.id, run_at=handle.job().enqueued_at)
    [job] = djqueue.Queue("default").claim()
    job.ack()
    assert handle.job().priority == priority
    dead = DeadJobFactory(priority=priority)
    assert djqueue.requeue(dead.id)
    assert djqueue.get_job(dead.id).priority == priority


def test_a_schedule_may_have_a_wide_priority(database):
    schedules.create("wide", task="tests.app.tasks.add", args=[1], every=60, priority=2**40)
    assert rows(Schedule).get(name="wide").priority == 2**40


@pytest.mark.parametrize("priority", [2**63, -(2**63)])
def test_a_priority_beyond_64_bits_is_refused(database, priority):
    with pytest.raises(djqueue.InvalidOption, match="priority must be a whole number"):
        add.using(priority=priority).enqueue(1)
    with pytest.raises(djqueue.InvalidOption, match="priority must be a whole number"):
        djqueue.reschedule(add.enqueue(1).id, priority=priority)
