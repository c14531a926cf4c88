"""Schedules in code: checked at start, written to the table by workers, and followed by it."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta

import pytest
from django.core.checks import run_checks

import djqueue
from djqueue import maintenance, schedules
from djqueue.core import registry
from djqueue.models import Schedule
from djqueue.schedules import in_code
from tests.app.tasks import add
from tests.factories import ScheduleFactory
from tests.tools import database_now, in_threads, rows

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _nothing_declared(monkeypatch):
    registry.discover()
    monkeypatch.setattr(in_code, "_declared", {})
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))


def row(name: str = "s") -> Schedule:
    return rows(Schedule).get(name=name)


def undeclare(name: str = "s") -> None:
    del in_code._declared[name]


def declare(name: str = "s", **definition) -> None:
    """Declare it as another release would."""
    in_code._declared.pop(name, None)
    djqueue.schedule(name, **{"task": add, "args": [1]} | definition)


def test_declared_schedules_are_written_to_the_table(database):
    declare(cron="0 2 * * *", timezone="Europe/Berlin", kwargs={"b": (1, 2)}, misfire="all", jitter=5)

    @djqueue.task(name="tests.ticker", cron="*/5 * * * *")
    def ticker() -> None: ...

    assert schedules.synchronise() == 2
    found = row()
    assert (found.task, found.cron, found.timezone) == (add.name, "0 2 * * *", "Europe/Berlin")
    assert (found.kwargs, found.misfire, found.jitter) == ({"b": [1, 2]}, "all", 5.0)
    assert (found.from_code, found.removed_from_code, found.enabled) == (True, False, True)
    assert found.next_at > database_now()
    assert (row("tests.ticker").task, row("tests.ticker").cron) == ("tests.ticker", "*/5 * * * *")
    assert schedules.synchronise() == 0


def test_a_changed_rule_is_written_and_applies_from_now_on(database):
    declare(every=3600)
    schedules.synchronise()
    slot = row().next_at
    declare(every=3600, args=[2])
    assert schedules.synchronise() == 1
    assert (row().args, row().next_at) == ([2], slot)
    declare(every=60, args=[2])
    assert schedules.synchronise() == 1
    assert row().next_at < slot


def test_schedules_disabled_by_an_operator_stay_disabled_after_a_deploy(database):
    declare(every=3600)
    schedules.synchronise()
    schedules.disable("s")
    declare(every=60)
    assert schedules.synchronise() == 1
    assert (row().enabled, row().every, row().next_at) == (False, 60, None)
    undeclare()
    schedules.synchronise()
    declare(every=60)
    schedules.synchronise()
    assert (row().enabled, row().removed_from_code) == (False, False)


def test_a_schedule_removed_from_code_is_disabled_and_kept(database):
    declare(every=3600)
    schedules.synchronise()
    schedules.run_now("s")
    undeclare()
    assert schedules.synchronise() == 1
    found = row()
    assert (found.enabled, found.removed_from_code, found.problem) == (False, True, "removed from code")
    assert found.last_job_id is not None
    assert schedules.synchronise() == 0
    assert schedules.seconds_until_next() is None


def test_a_schedule_declared_again_is_enabled_again(database):
    declare(every=3600)
    schedules.synchronise()
    undeclare()
    schedules.synchronise()
    declare(every=3600)
    assert schedules.synchronise() == 1
    assert (row().enabled, row().removed_from_code, row().problem) == (True, False, "")
    assert row().next_at > database_now()


def test_a_slot_during_a_short_absence_of_the_declaration_is_a_misfire(database):
    declare(every=3600)
    schedules.synchronise()
    slot = database_now() - timedelta(minutes=10)
    rows(Schedule).update(next_at=slot)
    undeclare()
    schedules.synchronise()
    assert maintenance.fire_schedules() == 0
    declare(every=3600)
    schedules.synchronise()
    assert maintenance.fire_schedules() == 1
    assert row().last_at == slot


def test_slots_during_a_long_absence_of_the_declaration_are_not_fired(database):
    declare(every=3600)
    schedules.synchronise()
    undeclare()
    schedules.synchronise()
    rows(Schedule).update(next_at=database_now() - 5 * HOUR)
    declare(every=3600)
    schedules.synchronise()
    assert maintenance.fire_schedules() == 0
    assert row().next_at > database_now()


def test_an_operator_can_enable_a_schedule_removed_from_code(database):
    declare(every=3600)
    schedules.synchronise()
    undeclare()
    schedules.synchronise()
    schedules.enable("s")
    assert schedules.synchronise() == 0
    assert row().enabled
    schedules.update("s", every=60)  # it is theirs now
    assert row().every == 60


def test_two_releases_side_by_side_write_their_schedules_once_each(database):
    """An older worker that starts has its word; it is not repeated, and the next start of the newer one undoes it."""
    declare(every=3600)
    schedules.synchronise()
    undeclare()  # the older release does not know it
    assert schedules.synchronise() == 1
    declare(every=3600)
    assert schedules.synchronise() == 1
    assert [schedules.synchronise() for _ in range(3)] == [0, 0, 0]
    assert row().enabled


def test_code_takes_over_a_schedule_of_that_name(database):
    schedules.create("s", task=add, every=60)
    schedules.create("other", task=add, every=60)
    declare(every=3600)
    assert schedules.synchronise() == 1
    assert (row().from_code, row().every) == (True, 3600)
    assert not row("other").from_code


def test_a_repaired_rule_is_enabled_again(database):
    ScheduleFactory(name="s", from_code=True, cron="0 0 31 2 *", next_at=database_now())
    maintenance.fire_schedules()
    assert not row().enabled
    declare(cron="0 0 28 2 *")
    schedules.synchronise()
    assert (row().enabled, row().problem) == (True, "")


def test_an_ended_schedule_stays_disabled(database):
    declare(every=60, ends_at=database_now() - HOUR)
    schedules.synchronise()
    assert not row().enabled
    assert "no slot is left: ends_at is" in row().problem
    assert schedules.synchronise() == 0


def test_an_invalid_declaration_is_a_check_error_and_does_not_stop_the_others(database, caplog):
    declare("good", every=60)
    declare("never", cron="0 0 30 2 *")
    declare("nowhere", cron="* * * * *", timezone="Mars")
    declare("nobody", task="no.such.task", every=60)
    declare("unsaid", every=60, args=[object()])

    @djqueue.task(name="tests.bad", cron="every day")
    def bad() -> None: ...

    @djqueue.task(name="tests.worse", cron=5)
    def worse() -> None: ...

    errors = {error.msg for error in run_checks(tags=["djqueue"]) if error.id == "djqueue.E004"}
    assert len(errors) == 6
    for part in (
        "Schedule 'never': cron '0 0 30 2 *' never matches a date.",
        "Schedule 'nowhere': timezone must be an IANA name such as 'Europe/Berlin', got 'Mars'",
        "Schedule 'nobody': no task named 'no.such.task' is registered.",
        "Schedule 'unsaid': args[0] is of type object",
        "Schedule 'tests.bad': cron 'every day' has 2 fields",
        "Schedule 'tests.worse': cron must be a cron rule",
    ):
        assert any(message.startswith(part) for message in errors), part
    assert schedules.synchronise() == 1
    assert [found.name for found in rows(Schedule).all()] == ["good"]
    assert caplog.text.count("schedule not written") == 6


def test_an_invalid_change_of_a_declaration_leaves_its_row_unchanged(database):
    declare(every=60)
    schedules.synchronise()
    declare(cron="0 0 30 2 *")
    assert schedules.synchronise() == 0
    assert (row().enabled, row().every) == (True, 60)


def test_a_name_has_one_declaration():
    djqueue.schedule("s", task=add, every=60)
    djqueue.schedule("s", task=add.using(), every=60)  # reloading a module creates new Task objects
    with pytest.raises(djqueue.DuplicateSchedule, match="'s' is already declared"):
        djqueue.schedule("s", task=add, every=61)


def test_workers_that_start_at_once_create_one_row_per_schedule(database):
    """Half of them are of an older release, with other rules."""
    for n in range(10):
        declare(f"s{n}", every=3600 + n)
    assert sum(in_threads(6, lambda number: schedules.synchronise())) >= 10
    assert rows(Schedule).count() == 10
    schedules.disable("s3")
    for n in range(10):
        declare(f"s{n}", every=60 + n)
    in_threads(6, lambda number: schedules.synchronise())
    found = {one.name: one for one in rows(Schedule).all()}
    assert {name: one.every for name, one in found.items()} == {f"s{n}": 60 + n for n in range(10)}
    assert [name for name, one in found.items() if not one.enabled] == ["s3"]


def test_schedules_may_be_declared_before_apps_are_ready():
    code = "import djqueue; djqueue.schedule('s', task='x', every=5); print(djqueue.schedules.schedule.__name__)"
    env = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "schedule\n", done.stderr


@pytest.mark.databases("postgresql", "sqlite", "mysql")
def test_a_schedule_that_is_no_longer_declared_says_since_when_it_is_disabled(database):
    declare(every=60)
    schedules.synchronise()
    undeclare()
    schedules.synchronise()
    assert (row().enabled, row().problem, row().disabled_by) == (False, in_code.REMOVED, "")
    assert row().disabled_at <= database_now()
    declare(every=60)
    schedules.synchronise()
    assert (row().enabled, row().disabled_at) == (True, None)
