"""Every call works as the first thing that its thread, or its process, does with the database."""

from __future__ import annotations

import pytest
from django.db import connections

import djqueue
from djqueue import call, kv, maintenance
from tests.app.tasks import add
from tests.factories import DeadJobFactory
from tests.tools import in_thread

FIRST = {
    "enqueue": lambda: add.enqueue(1),
    "enqueue with kv": lambda: add.using(kv={"a": 1}).enqueue(1),
    "enqueue with an own id": lambda: add.using(id="0198c9b4-0000-7000-8000-00000000000a").enqueue(1),
    "enqueue with a key": lambda: add.using(dedup_key="k").enqueue(1),
    "enqueue_many": lambda: add.enqueue_many([call(1), call(2)]),
    "enqueue_many of nothing": lambda: add.enqueue_many([]),
    "cancel": lambda: djqueue.cancel("0198c9b4-0000-7000-8000-00000000000b"),
    "reschedule": lambda: djqueue.reschedule("0198c9b4-0000-7000-8000-00000000000b", priority=1),
    "requeue": lambda: djqueue.requeue(djqueue.Queue("default").dead_jobs()[0].id),
    "claim": lambda: djqueue.Queue("default").claim(),
    "claim_wait": lambda: djqueue.Queue("default").claim_wait(0),
    "pause": lambda: djqueue.Queue("default").pause(),
    "resume": lambda: djqueue.Queue("default").resume(),
    "clear_dead": lambda: djqueue.Queue("default").clear_dead(),
    "stats": lambda: djqueue.stats("default"),
    "queues": djqueue.queues,
    "wait_for_jobs": lambda: djqueue.wait_for_jobs(0),
    "kv.set": lambda: kv.set("k", 1),
    "kv.compare_and_set": lambda: kv.compare_and_set("k", None, 1),
    "reap": maintenance.reap,
    "promote": maintenance.promote,
    "sweep_done": maintenance.sweep_done,
    "sweep_dead": maintenance.sweep_dead,
    "sweep_kv": maintenance.sweep_kv,
    "roll_up": maintenance.roll_up,
}


@pytest.mark.parametrize("first", FIRST)
def test_any_call_works_as_the_first_on_a_new_connection(database, first):
    DeadJobFactory()

    def alone() -> None:
        assert connections[database].connection is None
        FIRST[first]()

    in_thread(alone)
