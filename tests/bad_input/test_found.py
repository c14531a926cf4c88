"""What the other tests of this folder have found, one plain test each."""

from __future__ import annotations

import pytest

import djqueue
from djqueue import conf, schedules
from tests.app.tasks import add
from tests.bad_input.strategies import every_database, nested

HUGE = 10**5000  # repr() raises ValueError
LARGE = 10**400  # float() raises OverflowError


@pytest.mark.parametrize("value", [HUGE, -HUGE, LARGE, nested(5000)], ids=["huge", "negative", "large", "deep"])
@pytest.mark.parametrize("option", ["queue", "priority", "delay", "timeout", "run_at", "id", "headers", "on_commit"])
def test_an_option_whose_value_cannot_be_shown_is_refused(option, value):
    with pytest.raises(djqueue.InvalidOption, match=option):
        add.using(**{option: value})


@pytest.mark.parametrize("setting", [{"LEASE": LARGE}, {"MAX_ATTEMPTS": HUGE}, {HUGE: 1}, {"QUEUES": {"a": HUGE}}])
def test_a_setting_whose_value_cannot_be_shown_is_reported(settings, setting):
    settings.DJQUEUE = setting
    assert len(conf.problems()) == 1


def test_an_option_that_cannot_be_hashed_is_refused():
    with pytest.raises(djqueue.InvalidOption, match="on_commit"):
        add.using(on_commit=[])
    with pytest.raises(djqueue.InvalidOption, match="task name"):
        djqueue.enqueue(["a"])


@every_database
def test_the_explanation_of_an_id_that_cannot_be_shown(database):
    assert djqueue.explain(HUGE).code == "not_found"


@every_database
@pytest.mark.parametrize("name", ["\x00", "\ud800", "", 5, None, []])
def test_a_schedule_with_a_name_that_cannot_exist_is_unknown(database, name):
    for act in (schedules.enable, schedules.disable, schedules.run_now, schedules.update):
        with pytest.raises(djqueue.UnknownSchedule):
            act(name)
    assert not schedules.delete(name)


@every_database
def test_who_disables_a_schedule_may_have_any_name(database):
    schedules.create("nightly", task=add, cron="0 0 * * *")
    assert schedules.disable("nightly", by="a\x00\ud800").disabled_by == "a\ufffd\ufffd"
    with pytest.raises(djqueue.InvalidOption, match="by must be a string"):
        schedules.disable("nightly", by=5)
