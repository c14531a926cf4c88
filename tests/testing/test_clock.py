"""`advance`: time passes for the queue, on every database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import SynchronousOnlyOperation

import djqueue
from djqueue import kv, schedules, testing
from djqueue.models import DoneJob, Job, Schedule
from djqueue.schedules import in_code
from djqueue.schedules.rules import Cron
from tests.testing.tasks import Boom, chain, fail, note, notes, slot, third_time_lucky
from tests.tools import claim_one, database_now, rows
from tests.worker.process.test_worker import PLAIN

pytestmark = pytest.mark.databases(*PLAIN)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def no_declarations(monkeypatch):
    """The schedules that other test modules declare do not fire here."""
    monkeypatch.setattr(in_code, "declarations", dict)


def results(ran):
    return [record.result for record in ran]


def test_delayed_jobs_run_in_the_order_of_their_times(place):
    note.using(delay=7200).enqueue("second")
    note.using(delay=3600, priority=djqueue.LOW).enqueue("first")
    note.using(delay=3 * 3600 + 60).enqueue("later")
    note.enqueue("now")
    assert results(testing.advance(3 * HOUR)) == notes() == ["now", "first", "second"]
    assert testing.advance(30) == []
    assert results(testing.advance(30)) == ["later"]


def test_state_is_as_if_the_time_had_passed(place):
    waiting = note.using(delay=7200).enqueue("x")
    done = note.enqueue("y")
    before, enqueued_at = database_now(), waiting.job().run_at
    testing.advance(HOUR)
    assert waiting.job().run_at == enqueued_at - HOUR
    assert timedelta(hours=2) - (waiting.job().run_at - waiting.job().enqueued_at) < timedelta(milliseconds=1)
    assert before - HOUR <= done.job().completed_at + timedelta(seconds=1)
    assert done.job().completed_at < before - HOUR + timedelta(seconds=60)
    assert rows(DoneJob).count() == 1


def test_a_retry_chain_with_growing_delays(place):
    handle = third_time_lucky.enqueue()
    with pytest.raises(Boom):
        testing.advance(59)
    assert (handle.status(), handle.job().attempts) == ("scheduled", 1)
    assert [record.attempts for record in testing.advance(2, raise_errors=False)] == [2]
    assert testing.advance(110) == []
    [record] = testing.advance(15)
    assert (record.status, record.result) == ("done", 3)


def test_an_error_is_raised_unless_a_retry_made_up_for_it(place):
    third_time_lucky.enqueue()
    assert [record.status for record in testing.advance(HOUR)] == ["scheduled", "scheduled", "done"]
    handle = fail.enqueue()
    note.using(delay=1800).enqueue("after the failure")
    with pytest.raises(Boom) as raised:
        testing.advance(HOUR)
    assert raised.traceback[-1].name == "fail"
    assert (handle.status(), handle.job().attempts) == ("dead", 3)
    assert notes()[-1] == "after the failure"
    fail.enqueue()
    statuses = [record.status for record in testing.advance(HOUR, raise_errors=False)]
    assert statuses == ["scheduled", "scheduled", "dead"]


def test_jobs_made_on_the_way_run_when_they_become_due(place):
    chain.using(delay=60).enqueue(2)
    assert len(testing.advance(60)) == 3
    assert notes() == ["2", "1", "0"]


def test_a_cron_rule_fires_between_delayed_jobs(place):
    now = database_now()
    schedules.create("hourly", task=slot, cron="0 * * * *")
    first = Cron("0 * * * *", "UTC").next(now)
    half_past_second = first + HOUR + timedelta(minutes=30)
    note.using(run_at=half_past_second).enqueue("delayed")
    ran = testing.advance(3 * HOUR)
    expected = [first, first + HOUR, first + 2 * HOUR]
    assert [record.slot for record in ran if record.slot] == expected
    texts = [f"slot {moment.isoformat()}" for moment in expected]
    assert notes() == [texts[0], texts[1], "delayed", texts[2]]
    [again] = testing.advance(HOUR)
    assert again.slot == again.result == first + 3 * HOUR
    row = rows(Schedule).get(name="hourly")
    assert (row.last_at, row.next_at) == (first - HOUR, first)  # four hours ago, and by the clock


def test_a_daily_rule_keeps_its_calendar_over_several_calls(place):
    """A second call continues where the first ended, also if no slot was fired."""
    now = database_now()
    first = Cron("30 3 * * *", "UTC").next(now)
    schedules.create("daily", task=slot, cron="30 3 * * *")
    fired = [record.slot for _ in range(8) for record in testing.advance(7 * HOUR)]
    until = now + 56 * HOUR
    expected = [first + timedelta(days=n) for n in range(4)]
    assert fired == [moment for moment in expected if moment <= until]
    assert len(fired) in (2, 3)


def test_an_interval_and_a_schedule_that_is_created_later(place):
    schedules.create("a", task=note, every=3600, args=["a"])
    testing.advance(90 * 60)
    schedules.create("b", task=note, every=3600, args=["b"])
    testing.advance(61 * 60)
    assert notes() == ["a", "a", "b"]
    schedules.update("a", every=600)
    testing.advance(11 * 60)
    assert notes() == ["a", "a", "b", "a"]
    schedules.disable("a")
    testing.advance(HOUR)
    assert notes() == ["a", "a", "b", "a", "b"]


def test_a_zone_with_daylight_saving_time(place):
    """At 02:30 in Berlin every Sunday for a year: at the wall time, or at the end of the gap."""
    zone = ZoneInfo("Europe/Berlin")
    schedules.create("night", task=slot, cron="30 2 * * sun", timezone="Europe/Berlin")
    slots = [record.slot for record in testing.advance(timedelta(days=365))]
    assert len(slots) in (52, 53)
    walls = {moment.astimezone(zone).strftime("%H:%M") for moment in slots}
    assert walls == {"02:30", "03:00"}
    assert len({moment.astimezone(zone).date() for moment in slots}) == len(slots)


def test_schedules_of_the_code(place, monkeypatch):
    monkeypatch.setattr(in_code, "declarations", lambda: {"declared": {"task": note.name, "every": 600, "args": ["c"]}})
    testing.advance(25 * 60)
    assert notes() == ["c", "c"]
    assert rows(Schedule).get(name="declared").from_code


def test_an_overlap_policy_applies(place):
    schedules.create("a", task=note, every=600, args=["a"], overlap="skip", queue="stopped")
    djqueue.Queue("stopped").pause()
    testing.advance(HOUR)
    assert rows(Job).count() == 1
    djqueue.Queue("stopped").resume()
    assert len(testing.run_pending()) == 1


def test_kv_entries_expire_on_the_way(place):
    kv.set("short", 1, expires_in=1800)
    kv.set("long", 1, expires_in=7200)
    kv.set("for ever", 1)
    testing.advance(HOUR)
    assert [kv.get(key) for key in ("short", "long", "for ever")] == [None, 1, 1]
    testing.advance(HOUR)
    assert [kv.get(key) for key in ("long", "for ever")] == [None, 1]


def test_leases_expire_and_the_jobs_run_again(place):
    note.enqueue("held")
    job = claim_one()
    assert testing.advance(job.lease - 1) == []
    [record] = testing.advance(HOUR)
    assert (record.result, record.attempts) == ("held", 2)
    with pytest.raises(djqueue.LeaseLost):
        job.ack()


@pytest.mark.databases("sqlite")
def test_the_clock_of_python_stays(database):
    before = datetime.now(UTC)
    testing.advance(HOUR)
    assert datetime.now(UTC) - before < timedelta(minutes=1)


@pytest.mark.databases("sqlite")
def test_mistakes_are_named(database):
    with pytest.raises(djqueue.InvalidOption, match="time must be between 0 seconds and 100 years, got -1"):
        testing.advance(-1)
    with pytest.raises(djqueue.InvalidOption, match="time must be seconds or a timedelta, got 'x'"):
        testing.advance("x")
    schedules.create("a", task=note, every=1, args=["a"])
    with pytest.raises(djqueue.DjqueueError, match="Something was due at more than 20 moments, and 0:59:.* are left"):
        testing.advance(HOUR, limit=20)


def test_from_an_event_loop(place):
    note.using(delay=60).enqueue("x")

    @async_to_sync
    async def run():
        with pytest.raises(SynchronousOnlyOperation, match=r"await djqueue.testing.aadvance\(...\)"):
            testing.advance(60)
        return await testing.aadvance(60)

    assert results(run()) == ["x"]
