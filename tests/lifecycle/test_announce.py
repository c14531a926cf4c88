"""Signals that one process passes to another, which sends them: the same signals, about the same jobs."""

from __future__ import annotations

import pickle

import pytest

from djqueue import signals
from djqueue.core.records import Settled
from djqueue.lifecycle import announce, settle
from djqueue.lifecycle.announce import Relayed, RelayedOutcome, RelayedSignal
from djqueue.lifecycle.crash import light_rows
from djqueue.states import Outcome
from tests.app.tasks import add
from tests.test_signals import heard  # noqa: F401 - a fixture
from tests.tools import claim_one


@pytest.fixture
def relayed():
    """What this process passes on instead of sending it, as another process receives it."""
    found: list[Relayed] = []
    announce.relay_to(lambda one: found.append(pickle.loads(pickle.dumps(one))))
    yield found
    announce.relay_to(None)


def test_every_signal_is_relayed_under_its_own_name(database, relayed):
    signals.job_started.connect(receive)
    try:
        record = add.enqueue(1).job()
        announce.started([claim_one()])
        announce.requeued([record])
        announce.cancelled([record])
    finally:
        signals.job_started.disconnect(receive)
    assert [one.name for one in relayed if isinstance(one, RelayedSignal)] == [
        "job_queued",  # by enqueue
        "job_started",  # by the claim
        "job_started",
        "job_queued",
        "job_cancelled",
    ]
    assert {one.record.id for one in relayed} == {record.id}


def receive(**kwargs) -> None:
    pass


@pytest.mark.parametrize("name", ["queued", "started", "cancelled"])
def test_a_relayed_signal_is_sent_as_that_signal(database, heard, name):  # noqa: F811
    record = add.enqueue(1).job()
    heard.clear()
    announce.send_relayed(RelayedSignal(f"job_{name}", record))
    assert heard.names == [name]
    assert heard.last(name)["id"] == record.id


def test_the_signals_of_a_relayed_outcome_are_sent(database, relayed, heard):  # noqa: F811
    handle = add.enqueue(1)
    job = claim_one()
    row = light_rows().get(pk=handle.id)
    relayed.clear()
    settlement = settle.nack(job, "boom")
    announce.reaped(row, settlement, Settled(Outcome.RETRYING, attempts=1))
    [one] = relayed
    assert isinstance(one, RelayedOutcome)
    assert (one.record.id, one.settlement) == (handle.id, settlement)
    announce.relay_to(None)
    announce.send_relayed(one)
    assert heard.names == ["failed", "retrying"]
    assert (heard.last("failed")["id"], heard.last("failed")["error"]) == (handle.id, "boom")
