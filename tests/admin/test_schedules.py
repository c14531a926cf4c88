"""Schedules in the admin: validated per field, saved through the API, mostly read-only if they are from code."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
from django.contrib.admin.models import ADDITION, CHANGE
from django.test import Client

import djqueue
from djqueue import schedules
from djqueue.admin import schedule_page
from djqueue.admin.display import MARKS
from djqueue.admin.schedule_form import digest
from djqueue.core.uuid7 import uuid7
from djqueue.models import Job, Schedule
from djqueue.schedules import in_code
from tests.admin.test_pages import HOSTILE, assert_harmless
from tests.admin.tools import SCHEDULE, Cells, Person, words
from tests.factories import DeadJobFactory, JobFactory, ScheduleFactory, ago
from tests.tools import database_now, rows

pytestmark = pytest.mark.databases("postgresql", "sqlite", "mysql")

ADD = "tests.app.tasks.add"
LOG_IN = "tests.app.tasks.log_in"


def add(person: Person, **given: str):
    return person.client.post(person.url("schedule", "add/"), {"name": "s"} | SCHEDULE | given, follow=True)


def edit(person: Person, row: Schedule, **given: str | None):
    """Submit the form; a value of None is left out, like an unchecked box."""
    data = SCHEDULE | {"seen": digest(row)} | given
    sent = {name: value for name, value in data.items() if value is not None}
    return person.client.post(person.url("schedule", f"{row.pk}/change/"), sent, follow=True)


def only() -> Schedule:
    return rows(Schedule).get()


def errors(response) -> dict[str, list[str]]:
    return dict(response.context["adminform"].form.errors)


@pytest.fixture
def declared(monkeypatch):
    monkeypatch.setattr(in_code, "_declared", {})
    djqueue.schedule("nightly", task=ADD, cron="0 2 * * *")
    schedules.synchronise()
    return only


# Add


def test_a_schedule_is_added_with_its_next_slot(boss):
    response = add(
        boss,
        cron="0 2 * * *",
        timezone="Europe/Berlin",
        args="[1]",
        kwargs='{"b": 2}',
        queue="reports",
        priority="7",
        misfire="all",
        misfire_cap="5",
        overlap="skip",
        jitter="1.5",
        starts_at_0="2030-01-02",
        starts_at_1="03:04:05",
    )
    assert "was added successfully" in words(response)
    row = only()
    assert (row.name, row.task, row.cron, row.every, row.timezone) == ("s", ADD, "0 2 * * *", None, "Europe/Berlin")
    assert (row.args, row.kwargs, row.queue, row.priority) == ([1], {"b": 2}, "reports", 7)
    assert (row.misfire, row.misfire_cap, row.overlap, row.jitter) == ("all", 5, "skip", 1.5)
    assert row.starts_at == datetime(2030, 1, 2, 2, 4, 5, tzinfo=UTC)  # the site's time zone is Europe/Berlin
    assert row.next_at == datetime(2030, 1, 3, 1, 0, tzinfo=UTC)
    assert (row.enabled, row.from_code, row.problem) == (True, False, "")
    assert boss.log() == [(str(row.pk), ADDITION, json.dumps([{"added": {}}]))]


def test_interval_is_added_disabled(boss):
    data = {"name": "s"} | SCHEDULE | {"cron": "", "every": "90"}
    del data["enabled"]
    boss.client.post(boss.url("schedule", "add/"), data)
    row = only()
    assert (row.cron, row.every, row.enabled, row.next_at) == ("", 90.0, False, None)


def test_empty_arguments_of_the_add_form_are_valid(boss):
    sent = sent_by(boss.get("schedule", "add/"))
    assert (sent["args"], sent["kwargs"]) == ("[]", "{}")
    assert "was added successfully" in words(add(boss, args=sent["args"], kwargs=sent["kwargs"]))
    assert (only().args, only().kwargs) == ([], {})


@pytest.mark.parametrize("empty", ["", " \n"])
def test_empty_arguments_mean_none(boss, empty):
    assert "was added successfully" in words(add(boss, args=empty, kwargs=empty))
    assert (only().args, only().kwargs) == ([], {})
    schedules.update("s", args=[1], kwargs={"b": 2})
    assert "was changed successfully" in words(edit(boss, only(), args=empty, kwargs=empty))
    assert (only().args, only().kwargs) == ([], {})
    assert edit(boss, only(), args=empty, kwargs=empty).redirect_chain
    assert json.loads(boss.log()[-1][2]) == []  # nothing has changed


def test_times_have_one_format(boss):
    row = ScheduleFactory(next_at=datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC), starts_at=datetime(2030, 1, 1, tzinfo=UTC))
    assert "2030-01-02 04:04:05 CET" in words(boss.page("schedule", row.pk))
    assert "2030-01-02 04:04:05 CET" in boss.text("schedule")
    row = ScheduleFactory(from_code=True, starts_at=datetime(2030, 1, 1, tzinfo=UTC))
    page = boss.page("schedule", row.pk)
    assert "2030-01-01 01:00:00 CET" in words(page)
    assert "Declared in code: yes" in words(page)
    assert "icon-no" not in page.content.decode()


def test_form_offers_the_registered_tasks(boss):
    page = words(boss.get("schedule", "add/"))
    assert ADD in page
    assert "shop.charge" in page


BAD = {
    "cron that cannot be read": ({"cron": "61 * * * *"}, "cron", "is not valid"),
    "cron of three fields": ({"cron": "* * *"}, "cron", "has 3 fields"),
    "cron that never comes": ({"cron": "0 0 30 2 *"}, "cron", "never matches a date"),
    "cron and every": ({"every": "5"}, "cron", "set exactly one of cron and every"),
    "neither": ({"cron": ""}, "cron", "set exactly one of cron and every"),
    "every of half a second": ({"cron": "", "every": "0.5"}, "every", "at least 1 second"),
    "every that is no number": ({"cron": "", "every": "5 minutes"}, "every", "Enter a number."),
    "zone": ({"timezone": "Mars"}, "timezone", "timezone must be an IANA name such as 'Europe/Berlin', got 'Mars'"),
    "task": ({"task": "no.such.task"}, "task", "no.such.task is not one of the available choices"),
    "no task": ({"task": ""}, "task", "This field is required."),
    "args that are not JSON": ({"args": "[1"}, "args", "Invalid JSON: Expecting ',' delimiter"),
    "args that are no list": ({"args": "{}"}, "args", "args must be a list or tuple, got dict"),
    "args that cannot be stored": ({"args": "[NaN]"}, "args", "which JSON cannot represent"),
    "kwargs that are no object": ({"kwargs": "[]"}, "kwargs", "kwargs must be a dictionary, got list"),
    "kwargs with NUL": ({"kwargs": '{"a": "\\u0000"}'}, "kwargs", "NUL character"),
    "queue": ({"queue": "a b"}, "queue", "contains the character ' '"),
    "priority": ({"priority": "high"}, "priority", "Enter a whole number."),
    "misfire": ({"misfire": "x"}, "misfire", "Select a valid choice."),
    "misfire cap": ({"misfire_cap": "0"}, "misfire_cap", "a whole number from 1 to 1000"),
    "overlap": ({"overlap": "x"}, "overlap", "Select a valid choice."),
    "jitter": ({"jitter": "-1"}, "jitter", "jitter must be between 0 seconds"),
    "start": ({"starts_at_0": "tomorrow", "starts_at_1": "3:00"}, "starts_at", "Enter a valid date."),
    "end before start": (
        {"starts_at_0": "2030-01-02", "starts_at_1": "0:00", "ends_at_0": "2030-01-01", "ends_at_1": "0:00"},
        "ends_at",
        "ends_at must not be before starts_at",
    ),
    "an end that is past": ({"ends_at_0": "2020-01-01", "ends_at_1": "0:00"}, "ends_at", "no slot is left: ends_at is"),
    "a year too far": ({"ends_at_0": "9999-01-01", "ends_at_1": "0:00"}, "ends_at", "before the year"),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_value_is_explained_at_its_field(boss, name):
    given, field, problem = BAD[name]
    response = add(boss, **given)
    assert list(errors(response)) == [field]
    assert problem in errors(response)[field][0]
    assert not rows(Schedule).exists()
    row = ScheduleFactory()
    assert problem in errors(edit(boss, row, **given))[field][0]
    after = only()
    assert (after.cron, after.updated_at) == (row.cron, row.updated_at)
    assert boss.log() == []


@pytest.mark.parametrize("name", ["", "x" * 256, "a\tb"])
def test_invalid_name_is_explained(boss, name):
    assert list(errors(add(boss, name=name))) == ["name"]
    assert not rows(Schedule).exists()


def test_duplicate_name_is_refused(boss):
    ScheduleFactory(name="s")
    assert errors(add(boss)) == {"name": ["A schedule with this name already exists."]}
    assert rows(Schedule).count() == 1


def test_all_invalid_fields_are_reported_at_once(boss):
    assert set(errors(add(boss, timezone="Mars", queue="a b", args="x"))) == {"timezone", "queue", "args"}


def test_duplicate_name_at_save_is_reported(boss, monkeypatch):
    """The name is free when the form is validated, and taken when it is saved."""
    from djqueue.admin.schedule_form import ScheduleForm

    monkeypatch.setattr(ScheduleForm, "refuse_taken_name", lambda form: ScheduleFactory(name="s"))
    response = add(boss)
    assert boss.messages(response) == ["Not saved: Schedule 's' already exists."]
    assert boss.log() == []


def test_error_between_validation_and_save_is_reported(boss, monkeypatch):
    row = ScheduleFactory()

    def gone(name: str, **changes: object) -> None:
        raise djqueue.InvalidOption("no task named 'x' is registered")

    monkeypatch.setattr(schedules, "update", gone)
    response = edit(boss, row, cron="0 3 * * *")
    assert boss.messages(response) == ["Not saved: no task named 'x' is registered"]
    assert boss.log() == []


def test_adding_a_schedule_needs_its_permission(people):
    others = ("view_schedule", "change_schedule", "delete_schedule", "run_schedule")
    person = people(*others)
    assert add(person).status_code == 403
    assert person.get("schedule", "add/").status_code == 403
    assert add(Person(Client(), None)).redirect_chain[0][0].startswith("/admin/login/")
    assert not rows(Schedule).exists()
    adding = people("view_schedule", "add_schedule")
    assert add(adding).status_code == 200
    assert only().name == "s"
    assert [entry[1] for entry in adding.log()] == [ADDITION]


# Change


def test_only_changed_fields_are_saved_and_the_next_slot_is_updated(boss):
    schedules.create("s", task=ADD, cron="* * * * *", args=[1], kwargs={"b": 1}, priority=7)
    before = only()
    edit(boss, before, name="other", cron="", every="3600", args="[ 1 ]", kwargs='{"b": true}', priority="7")
    row = only()
    assert (row.name, row.cron, row.every, row.args, row.kwargs) == ("s", "", 3600.0, [1], {"b": True})
    assert row.kwargs["b"] is True
    assert (row.next_at - database_now()).total_seconds() == pytest.approx(3600, abs=30)
    fields = ["Cron rule", "Every (seconds)", "Named arguments"]
    assert boss.log()[0][:2] == (str(row.pk), CHANGE)
    assert sorted(json.loads(boss.log()[0][2])[0]["changed"]["fields"]) == fields


def test_saving_an_unchanged_form_changes_nothing(boss):
    schedules.create("s", task=ADD, every=2.5, starts_at=ago(10), args=[1.5, "é"], timezone="Asia/Tokyo")
    before = only()
    page = boss.page("schedule", before.pk)
    assert edit(boss, before, **sent_by(page)).redirect_chain
    after = only()
    assert (after.next_at, after.updated_at) == (before.next_at, before.updated_at)


def sent_by(page) -> dict[str, str | None]:
    """Return the data that a browser submits from an unchanged form."""
    sent: dict[str, str | None] = {}
    for field in page.context["adminform"].form:
        value = field.value()
        if field.name in ("starts_at", "ends_at"):
            parts = field.field.widget.decompress(value)
            sent |= {f"{field.name}_{n}": "" if part is None else str(part) for n, part in enumerate(parts)}
        elif field.name == "enabled":
            sent["enabled"] = "on" if value else None
        else:
            sent[field.name] = "" if value is None else str(value)
    return sent


def test_saving_refuses_to_overwrite_a_concurrent_change(boss):
    row = ScheduleFactory()
    schedules.update(row.name, queue="other")
    response = edit(boss, row, cron="0 3 * * *")
    assert "This schedule has changed since you opened it." in words(response)
    assert (only().cron, only().queue) == ("* * * * *", "other")


def test_firing_meanwhile_is_not_a_concurrent_change(boss):
    row = ScheduleFactory()
    schedules.run_now(row.name)
    edit(boss, row, cron="0 3 * * *")
    after = only()
    assert after.cron == "0 3 * * *"
    assert after.last_job_id == rows(Job).get().pk


def test_schedule_is_disabled_and_enabled_in_the_form(boss):
    schedules.create("s", task=ADD, cron="* * * * *")
    edit(boss, only(), enabled=None)
    assert (only().enabled, only().next_at) == (False, None)
    edit(boss, only())
    assert only().enabled
    assert only().next_at > database_now()
    assert len(boss.log()) == 2


def test_form_decides_whether_a_self_disabled_schedule_is_enabled(boss):
    row = ScheduleFactory(enabled=False, problem="bad", cron="x")
    edit(boss, row, enabled=None)
    assert (only().cron, only().enabled, only().problem) == ("* * * * *", False, "")
    rows(Schedule).update(problem="bad", cron="x")
    edit(boss, only())
    assert (only().cron, only().enabled, only().problem) == ("* * * * *", True, "")
    assert only().next_at is not None


def test_schedule_of_an_unregistered_task_is_shown_with_an_error(boss):
    row = ScheduleFactory(task="gone.away")
    assert "gone.away" in words(boss.page("schedule", row.pk))
    assert errors(edit(boss, row, task="gone.away")) == {"task": ["no task named 'gone.away' is registered"]}
    edit(boss, row)
    assert only().task == ADD


def test_viewer_sees_no_schedule_form(people):
    row = ScheduleFactory(task=LOG_IN, args=["ada", "hunter2"])
    looking = people("view_schedule")
    page = looking.page("schedule", row.pk)
    assert "Save" not in words(page)
    assert "ada" in words(page)
    assert "hunter2" not in page.content.decode()
    assert looking.client.post(looking.url("schedule", f"{row.pk}/change/"), SCHEDULE).status_code == 403
    assert only().task == LOG_IN


def test_schedule_rows_with_invalid_values_can_be_fixed(boss):
    row = ScheduleFactory()
    rows(Schedule).update(misfire="x", timezone="Mars", args="text", kwargs=[1], every=0.1)
    page = boss.page("schedule", row.pk)
    assert page.status_code == 200
    edit(boss, only())
    after = only()
    assert (after.misfire, after.timezone, after.args, after.kwargs) == ("once", "UTC", [], {})


# Sensitive arguments


def test_unchanged_mask_keeps_the_value(boss):
    row = ScheduleFactory(task=LOG_IN, args=["ada", "hunter2"])
    page = boss.page("schedule", row.pk)
    assert "hunter2" not in page.content.decode()
    assert json.loads(page.context["adminform"].form["args"].value()) == ["ada", "********"]
    edit(boss, row, task=LOG_IN, args='["grace", "********"]')
    assert only().args == ["grace", "hunter2"]
    edit(boss, only(), task=LOG_IN, args='["grace", "********"]', cron="0 3 * * *")
    assert (only().args, only().cron) == (["grace", "hunter2"], "0 3 * * *")
    edit(boss, only(), task=LOG_IN, args="[]", kwargs='{"user": "grace", "password": "********"}', cron="0 3 * * *")
    assert (only().args, only().kwargs) == ([], {"user": "grace", "password": "hunter2"})
    edit(boss, only(), task=LOG_IN, args='["grace", "new"]', cron="0 3 * * *")
    assert only().args == ["grace", "new"]


def test_mask_without_a_stored_value_is_refused(boss):
    response = add(boss, task=LOG_IN, args='["ada", "********"]')
    assert "password is masked, but there is no stored value" in errors(response)["args"][0]
    assert not rows(Schedule).exists()


@pytest.mark.parametrize("args", ['["ada", "********"]', '["********"]'])
def test_changing_the_task_does_not_reveal_masked_values(boss, args):
    row = ScheduleFactory(task=LOG_IN, args=["ada", "hunter2"])
    response = edit(boss, row, task=ADD, args=args)
    assert errors(response) == {"args": ["Enter masked values again when you change the task."]}
    assert "hunter2" not in response.content.decode()
    assert (only().task, only().args) == (LOG_IN, ["ada", "hunter2"])
    edit(boss, row, task=ADD, args="[1]")
    assert (only().task, only().args) == (ADD, [1])


# From code


def test_schedule_from_code_is_read_only_with_an_explanation(boss, declared):
    page = boss.page("schedule", declared().pk)
    assert "This schedule is declared in code" in words(page)
    assert "0 2 * * *" in words(page)
    names = {attrs.get("name") for tag, attrs in Cells(page.content.decode()).tags if tag in ("input", "textarea")}
    assert "enabled" in names
    assert not names & {"cron", "every", "task", "args", "kwargs", "queue", "name"}
    edit(boss, declared(), cron="* * * * *", queue="x", args="[9]", task="shop.charge", misfire="all")
    row = declared()
    assert (row.cron, row.queue, row.args, row.task, row.misfire) == ("0 2 * * *", "", [], ADD, "once")
    assert [json.loads(entry[2]) for entry in boss.log()] == [[]]  # saved without changes


def test_disabled_schedule_from_code_stays_disabled_after_a_deploy(boss, declared):
    edit(boss, declared(), enabled=None)
    assert not declared().enabled
    schedules.synchronise()
    assert (declared().enabled, declared().next_at) == (False, None)
    edit(boss, declared())
    schedules.synchronise()
    assert declared().enabled
    assert declared().next_at > database_now()


def test_invalid_schedule_from_code_cannot_be_enabled(boss):
    row = ScheduleFactory(from_code=True, enabled=False, cron="0 0 30 2 *")
    assert "never matches a date" in words(edit(boss, row))
    assert not only().enabled


def test_schedule_from_code_can_be_deleted_only_after_its_removal_from_code(boss, declared, monkeypatch):
    response = boss.do("schedule", "delete", declared().pk)
    messages = boss.messages(response)
    assert messages[0] == "Schedule 'nightly' is declared in code; remove it there, or disable it"
    assert messages[1] == "0 deleted, 1 skipped."
    assert boss.log() == []
    monkeypatch.setattr(in_code, "_declared", {})
    schedules.synchronise()
    assert declared().removed_from_code
    assert boss.messages(boss.do("schedule", "delete", declared().pk)) == ["1 deleted, 0 skipped."]
    assert not rows(Schedule).exists()


def test_schedule_removed_from_code_can_be_changed(boss, declared, monkeypatch):
    monkeypatch.setattr(in_code, "_declared", {})
    schedules.synchronise()
    edit(boss, declared(), cron="0 5 * * *")
    assert (declared().cron, declared().enabled) == ("0 5 * * *", True)


# Actions


def test_actions_report_counts_and_reasons_for_refusal(boss):
    on, off = ScheduleFactory(next_at=ago(-60)), ScheduleFactory(enabled=False)
    bad = ScheduleFactory(enabled=False, cron="0 0 30 2 *", name="bad")
    messages = boss.messages(boss.do("schedule", "enable", on.pk, off.pk, bad.pk))
    assert messages == ["Schedule 'bad': cron '0 0 30 2 *' never matches a date", "1 enabled, 2 skipped."]
    assert boss.log() == [(str(off.pk), CHANGE, "Enabled.")]
    assert boss.messages(boss.do("schedule", "disable")) == ["2 disabled, 1 skipped."]
    assert not rows(Schedule).filter(enabled=True).exists()
    assert len(boss.log()) == 3


def test_run_now_enqueues_a_job_of_a_disabled_schedule(boss):
    row = ScheduleFactory(enabled=False, queue="reports", args=[4])
    response = boss.do("schedule", "run_now", row.pk)
    assert boss.messages(response) == ["1 enqueued, 0 skipped."]
    job = rows(Job).get()
    assert (job.queue, job.args, job.schedule) == ("reports", [4], row.name)
    assert str(job.pk) in words(boss.page("schedule", row.pk))


def test_deleted_schedule_is_skipped(boss):
    row = ScheduleFactory()
    boss.ask("schedule", "delete", row.pk)
    schedules.delete(row.name)
    assert boss.messages(boss.do("schedule", "delete", row.pk)) == ["0 deleted, 1 skipped."]
    assert boss.log() == []


def test_django_delete_views_are_disabled(boss):
    row = ScheduleFactory()
    assert boss.get("schedule", f"{row.pk}/delete/").status_code == 403
    assert boss.client.post(boss.url("schedule", f"{row.pk}/delete/"), {"post": "yes"}).status_code == 403
    boss.do("schedule", "delete_selected", row.pk, post="yes")
    assert rows(Schedule).exists()


# Markup


def test_markup_is_shown_escaped_in_forms_and_errors(boss):
    fields = ("name", "task", "cron", "timezone", "queue", "every", "misfire", "starts_at_0", "args", "kwargs")
    for response in (boss.get("schedule", "add/"), add(boss, **dict.fromkeys(fields, HOSTILE))):
        assert_harmless(response)
    row = ScheduleFactory(name=HOSTILE, task=HOSTILE, cron=HOSTILE, problem=HOSTILE, args=[HOSTILE], from_code=True)
    assert_harmless(boss.page("schedule", row.pk))
    assert_harmless(edit(boss, row, enabled=None))
    assert_harmless(edit(boss, only()))
    for name in ("enable", "disable", "run_now", "delete"):
        assert_harmless(boss.ask("schedule", name, row.pk))
        assert_harmless(boss.do("schedule", name, row.pk))


# The top of the page


def test_page_shows_rule_next_times_and_last_job(boss):
    schedules.create("s", task=ADD, cron="30 2 * * mon-fri", timezone="America/New_York", args=[1])
    handle = schedules.run_now("s")
    assert "○ pending" in words(boss.page("schedule", only().pk))
    [job] = djqueue.Queue("default").claim()
    assert "▶" in words(boss.page("schedule", only().pk))
    job.ack()
    page = boss.page("schedule", only().pk)
    text = words(page)
    assert "Rule At 02:30, Monday to Friday 30 2 * * mon-fri America/New_York" in text
    assert (
        len(
            re.findall(
                r"(Mon|Tue|Wed|Thu|Fri) \d{4}-\d\d-\d\d 02:30:00 E[SD]T \d{4}-\d\d-\d\d \d\d:30:00 CES?T, in", text
            )
        )
        == 5
    )
    assert f"{handle.id} ✔ done ran for" in text
    assert [act.name for act in page.context["acts"]] == ["run_now", "disable", "delete"]


def test_page_shows_the_last_job_of_any_state(boss):
    row = ScheduleFactory(next_at=ago(-60))
    for job in (
        DeadJobFactory(claimed_at=ago(9), failed_at=ago(4)),
        JobFactory(claimed=True),
        JobFactory(scheduled=True),
    ):
        rows(Schedule).update(last_job_id=job.pk, last_at=ago(10))
        assert f"{job.pk} {MARKS[str(job.status) if job.status != 'claimed' else 'running']}" in words(
            boss.page("schedule", row.pk)
        )
    rows(Schedule).update(last_job_id=uuid7())
    assert "no longer kept" in words(boss.page("schedule", row.pk))


def test_times_after_the_end_are_not_shown(boss):
    row = ScheduleFactory(cron="", every=3600, next_at=ago(-60), ends_at=ago(-60 - 7200))
    assert len(schedule_page.next_times(row)) == 3
    assert schedule_page.next_times(ScheduleFactory(cron="0 0 31 2 *", next_at=row.next_at)) == []
    assert boss.page("schedule", row.pk).status_code == 200
    rows(Schedule).update(timezone="Mars", cron="x", every=None)
    assert boss.page("schedule", row.pk).status_code == 200


def test_problem_is_a_note_at_the_top_of_the_page(boss):
    row = ScheduleFactory(enabled=False, problem="no task named 'x' is registered", disabled_at=ago(130 * 60))
    text = words(boss.page("schedule", row.pk))
    assert "Problem: no task named 'x' is registered disabled by djqueue, because of a problem, 2 h 10 min ago" in text
    assert "disabled by djqueue, because of a problem" in boss.text("schedule")


def test_schedule_is_switched_run_and_deleted_from_its_page(boss):
    row = ScheduleFactory(next_at=ago(-60))
    page = {"from_page": row.pk}
    response = boss.do("schedule", "disable", row.pk, **page)
    assert response.redirect_chain[-1][0] == f"/admin/djqueue/schedule/{row.pk}/change/"
    assert f"disabled by {boss.user.username}, " in words(response)
    assert only().disabled_by == boss.user.username
    assert [act.name for act in response.context["acts"]] == ["run_now", "enable", "delete"]
    assert "disabled by" in boss.text("schedule")
    boss.do("schedule", "enable", row.pk, **page)
    assert (only().enabled, only().disabled_by) == (True, "")
    boss.do("schedule", "run_now", row.pk, **page)
    assert rows(Job).count() == 1
    edit(boss, only(), enabled=None)
    assert only().disabled_by == boss.user.username
    gone = boss.do("schedule", "delete", row.pk, **page)
    assert gone.redirect_chain[-1][0] == "/admin/djqueue/schedule/"
    assert not rows(Schedule).exists()


def test_page_offers_only_what_is_allowed(people, declared):
    row = declared()
    assert people("view_schedule").page("schedule", row.pk).context["acts"] == []
    person = people("view_schedule", "run_schedule", "delete_schedule", "change_schedule")
    assert [act.name for act in person.page("schedule", row.pk).context["acts"]] == ["run_now", "disable"]
