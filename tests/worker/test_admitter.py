"""Which keys a supervisor looks at, and when."""

from __future__ import annotations

import pytest
from django.db import OperationalError

import djqueue
from djqueue.lifecycle import admit
from djqueue.models import Job, LimitKey
from djqueue.sql import statements
from djqueue.worker.supervisor import admitter as admitters
from djqueue.worker.supervisor.admitter import Admitter
from tests.lifecycle.limited import call_api, sync
from tests.tools import rows, statements_sent


def pending() -> int:
    return rows(Job).filter(status="pending").count()


@pytest.fixture
def admitter(database) -> Admitter:
    """One that has made its first sweep."""
    admitter = Admitter()
    admitter.turn()
    return admitter


def test_the_first_turn_looks_at_all_keys(database):
    sync.enqueue_many([djqueue.call(n) for n in range(5)])
    Admitter().turn()
    assert pending() == 5


def test_a_turn_looks_at_the_keys_that_were_notified(admitter):
    sync.enqueue(1)
    sync.enqueue(2)
    admitter.notified({"tenant:2"})
    assert 9 < admitter.turn() <= 10
    assert pending() == 1
    admitter.notified({None})
    admitter.turn()
    assert pending() == 2


def test_a_turn_without_anything_to_do_sends_no_statement(admitter):
    with statements_sent() as sent:
        admitter.turn()
    assert sent == []


def test_keys_that_could_not_be_read_are_read_again(admitter, monkeypatch):
    def fail(keys):
        raise OperationalError("the server is gone")

    sync.enqueue(1)
    admitter.notified({"tenant:1"})
    with monkeypatch.context() as patch:
        patch.setattr(admit, "admit_keys", fail)
        with pytest.raises(OperationalError):
            admitter.turn()
    admitter.turn()
    assert pending() == 1


def test_it_waits_for_the_rate_of_a_key(admitter):
    djqueue.limits.set("api:a", rate="12/m", burst=3)
    call_api.enqueue_many([djqueue.call("a")] * 4)  # three at once, and the next after five seconds
    admitter.notified({"api:a"})
    assert 0 < admitter.turn() <= 5
    assert pending() == 3
    djqueue.Queue("default").claim(3)
    rows(LimitKey).update(spent_until=statements().now())
    admitter.due = dict.fromkeys(admitter.due, 0.0)
    admitter.turn()
    assert pending() == 1


def test_it_looks_again_at_a_key_whose_jobs_are_not_claimed_yet(admitter):
    """Nothing tells it when they are, and its rate allows more."""
    call_api.enqueue_many([djqueue.call("a")] * 4)
    admitter.notified({"api:a"})
    admitter.turn()
    rows(LimitKey).update(spent_until=statements().now())
    admitter.due = dict.fromkeys(admitter.due, 0.0)
    assert admitter.turn() < 0.11
    assert list(admitter.due) == ["api:a"]
    assert pending() == 3


def test_it_waits_for_the_end_of_a_hold(admitter):
    sync.enqueue(1)
    djqueue.limits.hold("tenant:1", 8)
    admitter.notified({"tenant:1"})
    assert 1 < admitter.turn() <= 8


def test_a_sweep_goes_through_the_keys_in_pages(admitter, monkeypatch):
    monkeypatch.setattr(admit, "KEYS", 2)
    sync.enqueue_many([djqueue.call(n) for n in range(5)])
    admitter.notified({None})
    assert admitter.turn() == 0
    assert pending() == 2
    assert admitter.turn() == 0
    assert admitter.turn() > 9
    assert pending() == 5


def test_a_wake_up_during_a_sweep_leads_to_another(admitter, monkeypatch):
    monkeypatch.setattr(admit, "KEYS", 2)
    sync.enqueue_many([djqueue.call(n) for n in range(5)])
    admitter.notified({None})
    admitter.turn()
    sync.enqueue(0)  # behind which the sweep is
    admitter.notified({None})
    for _ in range(6):
        admitter.turn()
    assert pending() == 6


def test_a_turn_looks_at_a_bounded_number_of_keys(admitter, monkeypatch):
    monkeypatch.setattr(admitters, "MOST_KEYS", 2)
    sync.enqueue_many([djqueue.call(n) for n in range(5)])
    admitter.notified({f"tenant:{n}" for n in range(5)})
    assert admitter.turn() == 0
    assert pending() == 2
    admitter.turn()
    admitter.turn()
    assert pending() == 5


def test_a_key_that_fails_does_not_hold_up_the_others(admitter, monkeypatch, caplog):
    sync.enqueue_many([djqueue.call(n) for n in range(3)])
    real = admit.admit_keys

    def fail(keys):
        assert "tenant:1" not in keys
        return real(keys)

    monkeypatch.setattr(admit, "admit_keys", fail)
    admitter.notified({f"tenant:{n}" for n in range(3)})
    assert admitter.turn() > 9
    assert pending() == 2
    assert "key=tenant:1" in caplog.text


def test_the_number_of_waits_is_bounded(admitter, monkeypatch):
    monkeypatch.setattr(admitters, "MOST_WAITS", 2)
    for name in "abc":
        call_api.enqueue_many([djqueue.call(name)] * 4)
    admitter.notified({"api:a", "api:b", "api:c"})
    admitter.turn()
    assert len(admitter.due) == 2


def test_a_sweep_takes_back_a_permit_that_a_paused_queue_has_kept(database):
    """An admission that began before the pause may commit after it."""
    job = sync.enqueue(1)
    djqueue.maintenance.admit()
    djqueue.Queue("default").pause()
    rows(Job).filter(pk=job.id).update(status="pending")
    others = sync.using(queue="other").enqueue_many([djqueue.call(1)] * 2)
    admitter = Admitter()
    for _ in range(3):  # also where a wake-up comes with every poll
        admitter.notified({None})
        admitter.turn()
    assert job.status() == "blocked"
    assert [str(other.status()) for other in others] == ["pending", "pending"]
