"""How many statements each act costs. Savepoints are never used."""

from __future__ import annotations

import pytest
from django.db import connections, transaction

import djqueue
from djqueue.lifecycle import claim as claiming
from djqueue.lifecycle import settle
from tests.app.tasks import add, eager_retry
from tests.tools import claim_one, statements_sent

LIMITS = {  # plain, dedup, kv, claim, settle
    "postgresql": (1, 1, 1, 1, 1),
    "sqlite": (1, 2, 2, 2, 4),
    "mysql": (1, 2, 2, 3, 4),
}


@pytest.fixture
def limits(database):
    return LIMITS[connections[database].vendor]


@pytest.mark.parametrize("atomic", [False, True])
def test_enqueue(database, limits, atomic):
    def sent_by(work) -> int:
        with statements_sent() as sent:
            if atomic:
                with transaction.atomic(using=database):
                    work()
            else:
                work()
        return len(sent)

    assert sent_by(lambda: add.enqueue(1)) == limits[0]
    assert sent_by(lambda: add.using(delay=5, headers={"a": 1}).enqueue(1)) == limits[0]
    assert sent_by(lambda: add.using(dedup_key="k").enqueue(1)) <= limits[1]
    assert sent_by(lambda: add.using(dedup_key="k").enqueue(1)) <= limits[1]
    assert sent_by(lambda: add.using(kv={"a": 1, "b": 2}).enqueue(1)) <= limits[2]


def test_claim(database, limits):
    for n in range(40):
        add.using(queue=f"q{n % 4}").enqueue(n)
    with statements_sent() as sent:
        assert len(djqueue.Queue("q0").claim(10)) == 10
    assert len(sent) <= limits[3]
    with statements_sent() as sent:
        assert len(claiming.claim({"q1": 10, "q2": 10, "q3": 10})) == 30
    assert len(sent) <= limits[3]
    with statements_sent() as sent:
        assert djqueue.Queue("q0").claim(10) == []
    assert len(sent) <= limits[3]


@pytest.mark.parametrize(
    ("verdict", "max_attempts"),
    [
        (lambda job: settle.ack(job, "result"), 3),
        (lambda job: settle.nack(job, "boom"), 3),
        (lambda job: settle.nack(job, "boom"), 1),
        (lambda job: settle.dead_letter(job, "boom"), 3),
        (settle.release, 3),
        (lambda job: settle.snooze(job, 5), 3),
        (settle.cancel, 3),
    ],
    ids=["ack", "nack to retry", "nack to death", "dead_letter", "release", "snooze", "cancel"],
)
@pytest.mark.parametrize("count", [1, 30])
def test_settle(database, limits, verdict, max_attempts, count):
    for n in range(count):
        add.using(max_attempts=max_attempts).enqueue(n)
    items = [verdict(job) for job in djqueue.Queue("default").claim(count)]
    with statements_sent() as sent:
        settle.settle_many(items)
    assert len(sent) <= limits[4]


def test_renew_and_progress(database, limits):
    eager_retry.enqueue()
    job = claim_one()
    for act in (lambda: job.renew(5), lambda: job.progress(1, 2)):
        with statements_sent() as sent:
            act()
        assert len(sent) <= min(limits[4], 2)
