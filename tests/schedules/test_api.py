"""Schedules at run time: make, change, switch, run now, delete."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

import djqueue
from djqueue import maintenance, schedules
from djqueue.conf import config
from djqueue.core.channels import PENDING, SCHEDULED
from djqueue.models import Job, Schedule
from djqueue.waiting.wakeup_sources import Listen
from tests.app.tasks import add
from tests.conftest import PLAIN
from tests.factories import ScheduleFactory
from tests.tools import claim_one, database_now, in_thread, in_threads, rows

HOUR = timedelta(hours=1)
ADD = "tests.app.tasks.add"


def row(name: str = "s") -> Schedule:
    return rows(Schedule).get(name=name)


def test_create_sets_the_next_slot(database):
    made = schedules.create(
        "nightly",
        task=add,
        cron="0 2 * * *",
        timezone="Europe/Berlin",
        args=[1],
        kwargs={"b": (2, 3)},
        queue="reports",
        priority=djqueue.LOW,
        misfire="all",
        misfire_cap=5,
        overlap="skip",
        jitter=timedelta(seconds=30),
    )
    found = row("nightly")
    assert made.pk == found.pk
    assert (found.task, found.cron, found.every, found.timezone) == (ADD, "0 2 * * *", None, "Europe/Berlin")
    assert (found.args, found.kwargs, found.queue, found.priority) == ([1], {"b": [2, 3]}, "reports", 10000)
    assert (found.misfire, found.misfire_cap, found.overlap, found.jitter) == ("all", 5, "skip", 30.0)
    assert (found.enabled, found.from_code, found.problem) == (True, False, "")
    assert found.next_at == made.next_at > database_now()
    assert found.next_at.minute == 0


def test_an_interval_starts_now_or_at_starts_at(database):
    before = database_now()
    schedules.create("s", task=add, every=timedelta(minutes=5))
    assert before + timedelta(minutes=5) <= row().next_at <= database_now() + timedelta(minutes=5)
    start = before.replace(microsecond=0) - timedelta(minutes=12)
    schedules.create("grid", task=add, every=300, starts_at=start)
    assert row("grid").next_at == start + timedelta(minutes=15)


def test_a_start_on_a_slot_is_the_first_slot(database):
    start = (database_now() + timedelta(days=2)).replace(hour=2, minute=0, second=0, microsecond=0)
    schedules.create("s", task=add, cron="0 2 * * *", starts_at=start)
    assert row().next_at == start


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ({"cron": "0 0 30 2 *"}, "never matches a date"),
        ({"cron": "61 * * * *"}, "is not valid"),
        (
            {"cron": "* * * * *", "timezone": "Mars"},
            "timezone must be an IANA name such as 'Europe/Berlin', got 'Mars'",
        ),
        ({"cron": "* * * * *", "task": "no.such.task"}, "no task named 'no.such.task' is registered"),
        ({"cron": "* * * * *", "task": None}, "task is required"),
        ({"cron": "* * * * *", "args": [object()]}, r"args\[0\] is of type object"),
        ({"cron": "* * * * *", "kwargs": {"a": float("nan")}}, "kwargs.a is nan"),
        ({"cron": "* * * * *", "args": ["x" * 2_000_000]}, "args too large: .* bytes"),
        ({"cron": "* * * * *", "args": "text"}, "args must be a list or tuple, got str"),
        ({"cron": "* * * * *", "kwargs": [1]}, "kwargs must be a dictionary"),
        ({}, "set exactly one of cron and every"),
        ({"cron": "* * * * *", "every": 5}, "set exactly one of cron and every"),
        ({"cron": 5}, "cron must be a cron rule"),
        ({"every": 0.5}, "every must be at least 1 second"),
        ({"every": "5"}, "every must be seconds or a timedelta"),
        ({"every": 5, "misfire": "x"}, "misfire must be one of skip, once, all, got 'x'"),
        ({"every": 5, "misfire_cap": 0}, "misfire_cap must be a whole number from 1 to 1000"),
        ({"every": 5, "overlap": None}, "overlap must be one of allow, skip, replace"),
        ({"every": 5, "jitter": -1}, "jitter must be between 0"),
        ({"every": 5, "queue": "a b"}, "queue 'a b' contains"),
        ({"every": 5, "priority": "high"}, "priority must be a whole number"),
        ({"every": 5, "starts_at": datetime(2026, 1, 1)}, "starts_at must be an aware datetime"),
        (
            {"every": 5, "starts_at": datetime(2030, 1, 2, tzinfo=UTC), "ends_at": datetime(2030, 1, 1, tzinfo=UTC)},
            "ends_at must not be before starts_at",
        ),
        ({"every": 5, "ends_at": datetime(2020, 1, 1, tzinfo=UTC)}, "no slot is left: ends_at is"),
        ({"every": 5, "evry": 5}, "Unknown option 'evry'. Valid options: name, task"),
    ],
    ids=lambda value: str(value)[:50],
)
@pytest.mark.databases("sqlite")
def test_bad_definitions_are_refused_with_a_reason(database, definition, message):
    with pytest.raises(djqueue.InvalidOption, match=message):
        schedules.create("s", **{"task": ADD} | definition)
    assert not rows(Schedule).exists()


@pytest.mark.parametrize("name", ["", "x" * 256, "a\x00b", None, 5])
def test_bad_names_are_refused(name):
    with pytest.raises(djqueue.InvalidOption, match="schedule name"):
        schedules.create(name, task=ADD, every=5)


def test_problems_are_reported_by_field():
    found = schedules.problems("s", task="no.such", cron="* * *", timezone="Mars", misfire="x", args=[1])
    assert set(found) == {"task", "timezone", "misfire"}
    assert set(schedules.problems("s", task=ADD, cron="* * *")) == {"cron"}
    assert set(schedules.problems("s", task=ADD, every=5, kwargs={"a": {1}})) == {"kwargs"}
    assert schedules.problems("s", task=ADD, cron="", every=5.0, queue="", priority=None) == {}
    assert schedules.validate("s", task=add, every=5).task == ADD


def test_a_schedule_name_is_unique(database):
    schedules.create("s", task=add, every=5)
    with transaction.atomic(using=database):
        with pytest.raises(djqueue.DuplicateSchedule, match="'s' already exists"):
            schedules.create("s", task=add, every=6)
        assert row().every == 5  # the transaction stays usable


@pytest.mark.databases("postgresql", "sqlite", "mysql")
def test_a_name_is_taken_once_by_many_at_once(database):
    def make(number: int) -> bool:
        try:
            schedules.create("s", task=add, every=5)
        except djqueue.DuplicateSchedule:
            return False
        return True

    assert sum(in_threads(6, make)) == 1


def test_a_schedule_commits_with_its_transaction(database):
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=database):
        schedules.create("s", task=add, every=5)
        raise ZeroDivisionError
    assert not rows(Schedule).exists()


def test_a_change_of_the_rule_moves_the_next_slot(database):
    schedules.create("s", task=add, every=3600)
    schedules.update("s", cron="* * * * *")
    assert (row().cron, row().every) == ("* * * * *", None)
    assert row().next_at - database_now() <= timedelta(minutes=1)
    schedules.update("s", every=7200)
    assert (row().cron, row().every) == ("", 7200)
    assert row().next_at - database_now() > HOUR


def test_another_change_leaves_the_next_slot(database):
    slot = schedules.create("s", task=add, every=3600).next_at
    schedules.update("s", args=[5], queue="other", misfire="skip")
    found = row()
    assert (found.args, found.queue, found.misfire, found.next_at) == ([5], "other", "skip", slot)


def test_a_bad_change_changes_nothing(database):
    schedules.create("s", task=add, every=3600)
    with pytest.raises(djqueue.InvalidOption, match="never matches a date"):
        schedules.update("s", cron="0 0 31 2 *", args=[9])
    assert (row().every, row().args) == (3600, [])


def test_a_change_enables_a_schedule_that_was_disabled_by_a_problem(database):
    ScheduleFactory(name="s", cron="0 0 31 2 *", next_at=database_now())
    maintenance.fire_schedules()
    assert not row().enabled
    with pytest.raises(djqueue.InvalidOption, match="never matches a date"):
        schedules.enable("s")
    schedules.update("s", cron="0 0 28 2 *")
    assert (row().enabled, row().problem) == (True, "")
    assert row().next_at is not None


def test_a_change_does_not_enable_a_schedule_disabled_by_an_operator(database):
    schedules.create("s", task=add, every=3600)
    schedules.disable("s")
    schedules.update("s", every=60)
    assert (row().enabled, row().next_at) == (False, None)


def test_disable_and_enable(database):
    schedules.create("s", task=add, every=3600)
    schedules.disable("s")
    assert (row().enabled, row().next_at) == (False, None)
    assert schedules.seconds_until_next() is None
    schedules.enable("s")
    assert (row().enabled, row().problem) == (True, "")
    slot = row().next_at
    assert HOUR - timedelta(seconds=10) < slot - database_now() <= HOUR
    schedules.enable("s")  # it was on: nothing moves
    assert row().next_at == slot


def test_slots_that_passed_while_disabled_are_not_fired(database):
    schedules.create("s", task=add, every=3600, misfire="all")
    rows(Schedule).update(next_at=database_now() - 5 * HOUR)
    schedules.disable("s")
    schedules.enable("s")
    assert maintenance.fire_schedules() == 0


def test_a_schedule_can_be_created_disabled(database):
    schedules.create("s", task=add, every=3600, enabled=False)
    assert (row().enabled, row().next_at) == (False, None)


def test_run_now(database):
    slot = schedules.create("s", task=add, every=3600, args=[1], queue="q", overlap="skip").next_at
    schedules.run_now("s")
    handle = schedules.run_now("s")
    job = handle.job()
    assert (job.status, job.args, job.queue, job.schedule) == ("pending", [1], "q", "s")
    assert job.headers == {"djqueue-schedule": "s", "djqueue-slot": job.slot.isoformat()}
    assert (row().last_job_id, row().last_at, row().next_at) == (job.id, job.slot, slot)
    schedules.disable("s")
    schedules.run_now("s")
    assert rows(Job).count() == 3


def test_run_now_counts_as_a_job_that_must_not_be_overlapped(database):
    schedules.create("s", task=add, every=3600, args=[1], overlap="skip")
    schedules.run_now("s")
    rows(Schedule).update(next_at=database_now())
    assert maintenance.fire_schedules() == 0
    claim_one().ack()
    rows(Schedule).update(next_at=database_now())
    assert maintenance.fire_schedules() == 1


@pytest.mark.databases("postgresql", "sqlite", "mysql")
def test_run_now_by_many_at_once(database):
    schedules.create("s", task=add, every=3600)
    handles = in_threads(6, lambda number: schedules.run_now("s"))
    assert len({handle.id for handle in handles}) == rows(Job).count() == 6


def test_delete(database):
    schedules.create("s", task=add, every=3600)
    handle = schedules.run_now("s")
    assert schedules.delete("s") is True
    assert schedules.delete("s") is False
    assert handle.job().schedule == "s"


@pytest.mark.parametrize(
    "act", [schedules.enable, schedules.disable, schedules.run_now, lambda name: schedules.update(name, every=5)]
)
def test_an_unknown_name_raises(database, act):
    with pytest.raises(djqueue.UnknownSchedule, match="'nobody'"):
        act("nobody")


def test_a_schedule_declared_in_code_cannot_be_changed_or_deleted(database):
    ScheduleFactory(name="s", from_code=True)
    with pytest.raises(djqueue.InvalidOption, match="declared in code; change it there"):
        schedules.update("s", every=5)
    with pytest.raises(djqueue.InvalidOption, match="declared in code; remove it there"):
        schedules.delete("s")
    schedules.disable("s")
    schedules.enable("s")
    rows(Schedule).update(removed_from_code=True)
    assert schedules.delete("s")


def test_the_async_versions(database):
    async def main() -> None:
        await schedules.acreate("s", task=add, every=3600)
        await schedules.aupdate("s", every=60)
        await schedules.adisable("s")
        await schedules.aenable("s")
        assert await schedules.aseconds_until_next() > 50
        handle = await schedules.arun_now("s")
        assert await maintenance.afire_schedules() == 0
        assert (await djqueue.aget_job(handle.id)).schedule == "s"
        assert await schedules.adelete("s")

    async_to_sync(main)()


@pytest.mark.databases("postgresql")
def test_every_change_wakes_a_sleeping_scheduler(database):
    read, write = os.pipe()
    source = Listen(config().database, read)
    try:
        source.listen_to([SCHEDULED])
        for change in (
            lambda: schedules.create("s", task=add, every=3600),
            lambda: schedules.update("s", every=60),
            lambda: schedules.disable("s"),
            lambda: schedules.enable("s"),
        ):
            in_thread(change)
            assert (SCHEDULED, None) in source.wait(60)
    finally:
        source.close()
        os.close(read)
        os.close(write)


@pytest.mark.databases("postgresql")
def test_a_fired_job_wakes_the_workers(database):
    schedules.create("s", task=add, every=3600, queue="reports")
    rows(Schedule).update(next_at=database_now())
    read, write = os.pipe()
    source = Listen(config().database, read)
    try:
        source.listen_to([PENDING])
        in_thread(maintenance.fire_schedules)
        assert (PENDING, "reports") in source.wait(60)
    finally:
        source.close()
        os.close(read)
        os.close(write)


def test_who_disabled_a_schedule_and_when_is_kept_until_it_is_enabled(database):
    schedules.create("s", task=add, every=3600)
    assert (row().disabled_at, row().disabled_by) == (None, "")
    before = database_now()
    schedules.disable("s", by="ada")
    assert before <= row().disabled_at <= database_now()
    assert row().disabled_by == "ada"
    schedules.disable("s", by="grace")  # it was disabled already
    assert row().disabled_by == "ada"
    schedules.enable("s")
    assert (row().disabled_at, row().disabled_by) == (None, "")
    schedules.disable("s", "x" * 300)
    assert row().disabled_by == "x" * 255
    async_to_sync(schedules.aenable)("s")
    async_to_sync(schedules.adisable)("s", by="grace")
    assert row().disabled_by == "grace"


@pytest.mark.databases(*PLAIN)
def test_a_schedule_that_disables_itself_says_when_and_an_operator_can_confirm_it(database):
    ScheduleFactory(name="s", cron="0 0 31 2 *", next_at=database_now())
    before = database_now()
    maintenance.fire_schedules()
    assert "never matches a date" in row().problem
    assert before <= row().disabled_at <= database_now()
    assert row().disabled_by == ""
    schedules.disable("s", by="ada")
    assert (row().problem, row().disabled_by) == ("", "ada")
    rows(Schedule).update(problem="x", disabled_by="")
    schedules.update("s", cron="0 0 28 2 *")
    assert (row().enabled, row().disabled_at, row().disabled_by) == (True, None, "")
