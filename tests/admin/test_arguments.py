"""The admin shows arguments of every type readably, and its forms keep them exactly."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

import djqueue
from djqueue import ModelReference
from djqueue.models import Job, Schedule
from tests.admin.tools import SCHEDULE, words
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory, ScheduleFactory
from tests.tools import rows, statements_sent

pytestmark = pytest.mark.databases("postgresql", "sqlite", "mysql")

KEY = UUID("018f3b1e-0000-7000-8000-000000000001")
VALUES = [
    Decimal("9.90"),
    datetime(2026, 1, 31, 9, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2026, 1, 31, 9, tzinfo=UTC),
    date(2026, 1, 31),
    time(9, 30),
    timedelta(days=1, hours=2),
    KEY,
    b"raw\xff",
    ModelReference("app.Place", "default", 42),
    {"$decimal": "mine"},
    "Decimal('1')",
    [1.5, None, True],
]
SHOWN = [
    "Decimal('9.90')",
    "2026-01-31T09:00:00[Europe/Berlin]",
    "2026-01-31T09:00:00+00:00",
    "2026-01-31",
    "09:30:00",
    "1 day, 2:00:00",
    str(KEY),
    r"b'raw\xff'",
    "app.Place 42",
    "\"Decimal('1')\"",
]
ECHO = "tests.app.tasks.echo"
SUBTRACT = "tests.app.tasks.subtract"


def test_the_page_of_a_job_shows_arguments_and_result_readably(boss):
    job = DoneJobFactory(task=ECHO, args=[VALUES], result=VALUES[:2])
    with statements_sent() as sent:
        page = words(boss.page("donejob", job.pk))
    assert not [sql for sql in sent if "app_place" in sql]
    for text in SHOWN:
        assert text in page
    assert page.count("Decimal('9.90')") == 2


def test_a_list_shows_arguments_readably(boss):
    JobFactory(task=ECHO, args=[VALUES[0]], kwargs={})
    JobFactory(task=ECHO, args=[], kwargs={"value": VALUES[8]})
    page = words(boss.get("job"))
    assert "Decimal('9.90')" in page
    assert "value=app.Place 42" in page


def test_the_page_of_a_job_shows_the_marker_of_a_result(boss):
    job = DoneJobFactory(result=djqueue.UnstorableResult("set", "{42}", "result is of type set"))
    page = words(boss.page("donejob", job.pk))
    assert "{42}" in page
    assert "result is of type set" in page


def test_unchanged_arguments_are_requeued_exactly(boss):
    job = DeadJobFactory(task=ECHO, args=[VALUES], kwargs={})
    form = boss.ask("deadjob", "requeue_edited", job.pk).context["form"]
    assert json.loads(form["args"].value())[0][:2] == [
        {"$decimal": "9.90"},
        {"$datetime": "2026-01-31T09:00:00[Europe/Berlin]"},
    ]
    assert "$decimal" in str(form["kwargs"].help_text)
    boss.do("deadjob", "requeue_edited", job.pk, args=form["args"].value(), kwargs=form["kwargs"].value())
    assert repr(rows(Job).get().args) == repr([VALUES])


def test_arguments_of_other_types_can_be_edited(boss):
    job = DeadJobFactory(task=ECHO, args=[1])
    edited = '[[{"$decimal": "1.50"}, {"$timedelta": "P1D"}, {"$model": ["app.Place", "default", 7]}]]'
    boss.do("deadjob", "requeue_edited", job.pk, args=edited, kwargs="{}")
    expected = [[Decimal("1.50"), timedelta(1), ModelReference("app.Place", "default", 7)]]
    assert repr(rows(Job).get().args) == repr(expected)


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ('[{"$decimal": "x"}]', "{}", "Invalid tag '$decimal'"),
        ('[{"$what": 1}]', "{}", "Unknown tag '$what'"),
        ("[1, 2, 3]", "{}", "at most 2 positional arguments are accepted, got 3"),
        ("[1]", '{"c": 1}', "unexpected argument 'c'"),
        ("[]", "{}", "missing 'a'"),
        ("[" * 100_000 + "{}" + "]" * 100_000, "{}", "cannot be stored"),
    ],
)
def test_arguments_that_cannot_be_used_are_a_form_error(boss, args, kwargs, problem):
    job = DeadJobFactory(task=SUBTRACT, args=[1])
    assert problem in words(boss.do("deadjob", "requeue_edited", job.pk, args=args, kwargs=kwargs))
    assert not rows(Job).exists()


def test_sensitive_values_of_other_types_are_masked(boss):
    price, key = Decimal("9999.90"), UUID(int=2**100)
    job = DeadJobFactory(
        task="tests.app.tasks.sign",
        args=[1],
        kwargs={"price": price, "at": key},
        last_error=f"cannot pay {price} with {key} and default-key",
    )
    page = words(boss.page("deadjob", job.pk)) + words(boss.get("deadjob"))
    assert "9999.90" not in page
    assert str(key) not in page
    assert "default-key" not in words(boss.page("deadjob", job.pk))
    form = boss.ask("deadjob", "requeue_edited", job.pk).context["form"]
    assert json.loads(form["kwargs"].value()) == {"price": "********", "at": "********"}
    boss.do("deadjob", "requeue_edited", job.pk, args="[2]", kwargs=form["kwargs"].value())
    assert rows(Job).get().kwargs == {"price": price, "at": key}


def schedule_data(page) -> dict[str, str]:
    form = page.context["adminform"].form
    return SCHEDULE | {"task": ECHO, "seen": form["seen"].value() or "", "cron": "", "every": "60"}


def test_a_schedule_keeps_arguments_of_every_type(boss):
    row = ScheduleFactory(task=ECHO, cron="", every=60, args=[VALUES], kwargs={})
    page = boss.page("schedule", row.pk)
    text = page.context["adminform"].form["args"].value()
    data = schedule_data(page) | {"args": text, "queue": "other"}
    response = boss.client.post(boss.url("schedule", f"{row.pk}/change/"), data, follow=True)
    assert response.status_code == 200
    saved = rows(Schedule).get()
    assert (saved.queue, repr(saved.args)) == ("other", repr([VALUES]))
    assert str(boss.log()[-1]).count("args") == 0


def test_a_schedule_with_arguments_of_other_types_can_be_added(boss):
    data = SCHEDULE | {"name": "s", "task": ECHO, "args": '[{"$date": "2026-01-31"}]'}
    boss.client.post(boss.url("schedule", "add/"), data, follow=True)
    assert rows(Schedule).get().args == [date(2026, 1, 31)]


@pytest.mark.parametrize(
    ("args", "problem"), [("[]", "missing &#x27;a&#x27;"), ("[1, 2, 3]", "got 3"), ('[{"$x": 1}]', "Unknown tag")]
)
def test_a_schedule_whose_arguments_do_not_fit_is_a_form_error(boss, args, problem):
    response = boss.client.post(boss.url("schedule", "add/"), SCHEDULE | {"name": "s", "task": SUBTRACT, "args": args})
    assert problem in str(response.context["adminform"].form.errors["args"])
    assert not rows(Schedule).exists()


@pytest.mark.parametrize("term", ["value:9.90", "value:42", f"value:{KEY}", "value:2026-01-31"])
def test_arguments_of_other_types_are_found(boss, term):
    for value in VALUES:
        JobFactory(task=ECHO, args=[value])
    page = boss.get("job", q=term)
    assert page.context["cl"].result_count == 1
