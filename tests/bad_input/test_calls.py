"""Every function with every kind of argument: an answer or a documented error, and the transaction stays usable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from hypothesis import given

import djqueue
from djqueue import kv, limits, schedules
from djqueue.core.options import CallOptions
from djqueue.core.uuid7 import uuid7
from djqueue.schedules.definition import Given
from tests.app.tasks import add
from tests.bad_input.strategies import HOSTILE_VALUES, anything, every_database, examples

SOME_ID = uuid7()
NEVER = "0 0 1 1 *"

CALLS: dict[str, Callable[[Any], Any]] = {
    "enqueue": lambda value: djqueue.enqueue(value),
    "enqueue args": lambda value: djqueue.enqueue("a.b", value),
    "enqueue kwargs": lambda value: djqueue.enqueue("a.b", [], value),
    "publish": djqueue.publish,
    "get_job": djqueue.get_job,
    "cancel": djqueue.cancel,
    "requeue": djqueue.requeue,
    "requeue args": lambda value: djqueue.requeue(SOME_ID, args=value),
    "requeue kwargs": lambda value: djqueue.requeue(SOME_ID, kwargs=value),
    "requeue run_at": lambda value: djqueue.requeue(SOME_ID, run_at=value),
    "enqueue_again": djqueue.enqueue_again,
    "reschedule": lambda value: djqueue.reschedule(value, priority=1),
    "reschedule run_at": lambda value: djqueue.reschedule(SOME_ID, run_at=value),
    "reschedule priority": lambda value: djqueue.reschedule(SOME_ID, priority=value),
    "explain": djqueue.explain,
    "estimate": djqueue.estimate,
    "stats": djqueue.stats,
    "Queue.claim": lambda value: djqueue.Queue(value).claim(),
    "Queue.claim limit": lambda value: djqueue.Queue("empty").claim(limit=value),
    "Queue.claim lease": lambda value: djqueue.Queue("empty").claim(lease=value),
    "Queue.dead_jobs after": lambda value: djqueue.Queue("empty").dead_jobs(after=value),
    "Queue.dead_jobs limit": lambda value: djqueue.Queue("empty").dead_jobs(limit=value),
    "Queue.clear_dead": lambda value: djqueue.Queue(value).clear_dead(),
    "Queue.pause": lambda value: djqueue.Queue(value).pause(),
    "Queue.resume": lambda value: djqueue.Queue(value).resume(),
    "kv.get": kv.get,
    "kv.set": lambda value: kv.set(value, 1),
    "kv.set value": lambda value: kv.set("key", value),
    "kv.set expires_in": lambda value: kv.set("key", 1, expires_in=value),
    "kv.delete": kv.delete,
    "kv.compare_and_set": lambda value: kv.compare_and_set(value, 1, 2),
    "kv.compare_and_set old": lambda value: kv.compare_and_set("key", value, 2),
    "kv.compare_and_set new": lambda value: kv.compare_and_set("key", None, value),
    "limits.get": limits.get,
    "limits.set": lambda value: limits.set(value, concurrency=1),
    "limits.set concurrency": lambda value: limits.set("key", concurrency=value),
    "limits.set rate": lambda value: limits.set("key", rate=value),
    "limits.set burst": lambda value: limits.set("key", rate="1/s", burst=value),
    "limits.clear": limits.clear,
    "limits.hold": lambda value: limits.hold(value, 1),
    "limits.hold delay": lambda value: limits.hold("key", value),
    "limits.release": limits.release,
    "Limit": lambda value: djqueue.Limit(value, concurrency=1),
    "Exponential": lambda value: djqueue.Exponential(value, value, value),
    "Fixed": lambda value: djqueue.Fixed(value, value),
    "schedules.create": lambda value: schedules.create(value, task=add, cron=NEVER),
    "schedules.update": lambda value: schedules.update(value, cron=NEVER),
    "schedules.enable": schedules.enable,
    "schedules.disable": schedules.disable,
    "schedules.disable by": lambda value: schedules.disable(a_schedule(), by=value),
    "schedules.delete": schedules.delete,
    "schedules.run_now": schedules.run_now,
}
CALLS |= {
    f"option {name}": lambda value, name=name: add.using(**{name: value}).enqueue(1)
    for name in CallOptions.__dataclass_fields__
}
CALLS |= {
    f"schedule {name}": lambda value, name=name: schedules.create("s", **{"task": add, "cron": NEVER} | {name: value})
    for name in Given.__annotations__
}


def a_schedule() -> str:
    return schedules.create("s", task=add, cron=NEVER).name


def check(database: str, name: str, value: Any) -> None:
    with transaction.atomic(using=database):
        kv.set("before", 1)
        try:
            CALLS[name](value)
        except djqueue.DjqueueError as error:
            assert str(error).encode()
        assert kv.get("before") == 1
        transaction.set_rollback(True, using=database)


@every_database
@pytest.mark.parametrize("name", CALLS)
def test_a_call_with_a_hostile_value_answers_or_raises_a_documented_error(database, name):
    for value in HOSTILE_VALUES:
        check(database, name, value)


@every_database
@pytest.mark.parametrize("name", CALLS)
def test_a_call_with_any_value_answers_or_raises_a_documented_error(database, name):
    @examples(10)
    @given(anything)
    def run(value: Any) -> None:
        check(database, name, value)

    run()
