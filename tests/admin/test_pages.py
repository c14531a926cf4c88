"""Pages of single rows, including rows with hostile or invalid content."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connections
from django.utils import timezone

import djqueue
from tests.admin.tools import Cells, words
from tests.app.middleware import POLICY
from tests.factories import (
    DeadJobFactory,
    DoneJobFactory,
    JobFactory,
    KVFactory,
    LimitKeyFactory,
    QueueStateFactory,
    ScheduleFactory,
    ThroughputFactory,
    WorkerFactory,
    ago,
)

pytestmark = pytest.mark.databases("postgresql", "sqlite", "mysql")

HOSTILE = "<script>alert('&\"x')</script><img src=x onerror=alert(1)>"
PAGES = {
    "job": lambda: JobFactory(claimed=True),
    "deadjob": DeadJobFactory,
    "donejob": DoneJobFactory,
    "worker": WorkerFactory,
    "schedule": ScheduleFactory,
    "kv": KVFactory,
    "limitkey": LimitKeyFactory,
}


def test_page_shows_timeline_attempts_and_arguments(boss):
    job = DeadJobFactory(
        task="shop.charge",
        kwargs={"order_id": 42},
        headers={"trace": "abc"},
        started_at=ago(50),
        claimed_at=ago(10),
        failed_at=ago(5),
        enqueued_at=ago(60),
        run_at=ago(60),
        last_error="no money left",
        worker_ids=["w-1", "w-2"],
        errors=[
            {
                "before_requeue": True,
                "attempt": 1,
                "message": "first",
                "traceback": "Traceback A",
                "at": ago(40).isoformat(),
            },
            {
                "attempt": 2,
                "message": "no money left",
                "exception": "shop.NoMoney",
                "traceback": "Traceback B\n  line 2",
                "at": ago(5.1).isoformat(),
                "worker": "w-2",
                "duration": 5.0,
            },
        ],
    )
    page = boss.page("deadjob", job.pk)
    text = words(page)
    for part in ("shop.charge", '"order_id": 42', '"trace": "abc"', "no money left", "shop.NoMoney", "w-1, w-2", "3/3"):
        assert part in text
    assert "Traceback A" in text
    assert "Traceback B line 2" in text
    assert "before the requeue" in text
    assert [moment.label for moment in page.context["timeline"]] == [
        "enqueued",
        "due",
        "first started",
        "attempt 1 failed",
        "died",
        "claimed",
        "attempt 2 failed",
        "died",
    ]
    folded = [attrs for tag, attrs in Cells(page.content.decode()).tags if tag == "details"]
    assert len(folded) == 2


def test_timeline_of_a_requeued_job(boss):
    def entry(number, seconds):
        return {"attempt": number, "message": "x", "at": ago(seconds).isoformat()}

    times = {"enqueued_at": ago(900), "run_at": ago(900), "started_at": ago(800), "claimed_at": ago(700)}
    job = DeadJobFactory(**times, failed_at=ago(690), errors=[entry(1, 790), entry(2, 690)], last_error="x")
    boss.do("deadjob", "requeue", job.pk)
    djqueue.Queue("default").claim()[0].dead_letter("again")
    djqueue.requeue(job.pk)
    djqueue.Queue("default").claim()[0].dead_letter("still")
    page = boss.page("deadjob", job.pk)
    shown = [(moment.label, moment.note) for moment in page.context["timeline"]]
    assert [label for label, _ in shown] == [
        "enqueued",
        "attempt 1 failed",
        "attempt 2 failed",
        "died",
        "requeued",
        "attempt 1 failed",
        "died",
        "due",
        "first started",
        "claimed",
        "attempt 1 failed",
        "died",
    ]
    assert shown[4] == ("requeued", f"by {boss.user.username}")
    assert f"requeued by {boss.user.username}" in words(page)


def test_a_running_job_shows_its_lease_and_progress(boss):
    job = JobFactory(claimed=True, progress={"done": 3, "total": 4, "message": "third"})
    page = boss.page("job", job.pk)
    assert ("progress", {"max": "100", "value": "75", "aria-labelledby": "djq-progress"}) in Cells(
        page.content.decode()
    ).tags
    assert "75 % (third)" in words(page)
    assert "lease expires" in words(page)


def test_a_done_job_shows_its_result(boss):
    job = DoneJobFactory(result={"paid": True}, claimed_at=ago(2), completed_at=ago(1))
    assert '"paid": true' in words(boss.page("donejob", job.pk))


def test_page_redirects_to_the_current_table_of_the_job(boss):
    job = DoneJobFactory()
    for model in ("job", "deadjob"):
        response = boss.page(model, job.pk)
        assert response.redirect_chain == [(f"/admin/djqueue/donejob/{job.pk}/change/", 302)]
        assert response.status_code == 200
    gone = boss.page("job", "0198c9b4-0000-7000-8000-00000000000a")
    assert "does not exist, or is no longer kept" in words(gone)
    assert boss.page("job", "nonsense<b>").status_code == 200


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("model", ["job", "deadjob", "donejob"])
def test_job_page_needs_its_view_permission(people, model):
    job = PAGES[model]()
    stranger = people(*({"view_job", "view_deadjob", "view_donejob", "view_worker"} - {f"view_{model}"}))
    assert stranger.page(model, job.pk).status_code == 403
    assert stranger.get(model, f"{job.pk}/history/").status_code == 403
    assert people(f"view_{model}").page(model, job.pk).status_code == 200


@pytest.mark.databases("postgresql")
def test_page_redirect_does_not_bypass_view_permission(people):
    job = DeadJobFactory()
    assert people("view_job").page("job", job.pk).status_code == 403


def test_job_pages_refuse_post(boss):
    job = JobFactory()
    assert boss.client.post(boss.url("job", f"{job.pk}/change/"), {"queue": "x"}).status_code == 405


@pytest.mark.parametrize("model", ["job", "deadjob", "donejob", "worker", "queuestate", "limitkey"])
def test_nothing_is_added_edited_or_deleted_by_default_forms(boss, model):
    made = {**PAGES, "queuestate": QueueStateFactory}[model]()
    for view in ("add/", f"{made.pk}/delete/"):
        assert boss.get(model, view).status_code == 403
        assert boss.client.post(boss.url(model, view), {"post": "yes"}).status_code == 403
    type(made).objects.using(made._state.db).get(pk=made.pk)


SCHEDULE_TEXTS = ["name", "task", "cron", "problem", "queue"]


def hostile_rows():
    """Create rows with markup in every text field of every table."""
    json_fields = {"args": [HOSTILE], "kwargs": {HOSTILE: HOSTILE}}
    job = {
        **json_fields,
        "headers": {HOSTILE: HOSTILE},
        "task": HOSTILE,
        "queue": HOSTILE,
        "last_error": HOSTILE,
        "dedup_key": HOSTILE,
        "limit_key": HOSTILE,
        "schedule": HOSTILE,
        "slot": ago(1),
        "retry": {HOSTILE: HOSTILE},
        "worker_ids": [HOSTILE],
        "progress": {"done": 1, "total": 2, "message": HOSTILE},
        "errors": [
            dict.fromkeys(("attempt", "at", "worker", "duration", "exception", "message", "traceback"), HOSTILE),
            HOSTILE,
        ],
    }
    return {
        "job": JobFactory(**job, claimed=True, worker=HOSTILE)
        and JobFactory(**job | {"dedup_key": None, "slot": None}),
        "deadjob": DeadJobFactory(**job),
        "donejob": DoneJobFactory(**job, result={HOSTILE: HOSTILE}),
        "worker": WorkerFactory(identity=HOSTILE, name=HOSTILE, host=HOSTILE, queues=[HOSTILE], version="<b>"),
        "schedule": ScheduleFactory(
            name=HOSTILE, task=HOSTILE, cron=HOSTILE, problem=HOSTILE, queue=HOSTILE, **json_fields
        ),
        "kv": KVFactory(key=HOSTILE, value={HOSTILE: HOSTILE}),
        "queuestate": QueueStateFactory(queue=HOSTILE, paused=True, paused_at=ago(1)),
        "limitkey": LimitKeyFactory(key=HOSTILE, held_until=ago(-60), concurrency=1),
        "throughput": ThroughputFactory(queue=HOSTILE, task=HOSTILE),
    }


def assert_harmless(response) -> None:
    assert response.status_code == 200
    html = response.content.decode()
    assert HOSTILE not in html
    for tag, attrs in Cells(html).tags:
        assert not [name for name in attrs if name.startswith("on") or name == "style"], (tag, attrs)
        assert tag != "style"
        assert tag != "script" or attrs.get("src", "").startswith(("/static/", "/admin/jsi18n/"))
        assert tag != "img" or attrs["src"].startswith("/static/")


def test_markup_in_every_text_field_is_shown_escaped(boss):
    from django.contrib.admin.utils import quote

    made = hostile_rows()
    for model, row in made.items():
        if model == "throughput":
            continue
        lists = [boss.get(model), *([boss.get(model, q=HOSTILE)] if model not in ("queuestate", "worker") else [])]
        for response in lists:
            assert_harmless(response)
        assert "<script>alert" in words(lists[0])
        if model != "queuestate":
            page = boss.get(model, f"{quote(row.pk)}/change/")
            assert_harmless(page)
            assert "<script>alert" in words(page)
        assert_harmless(boss.get(model, f"{quote(row.pk)}/history/"))
    for query in ({"queue": HOSTILE}, {"task": HOSTILE}, {"q": f"{HOSTILE}:1"}, {"q": f'a:"{HOSTILE}"'}):
        assert_harmless(boss.get("job", **query))
    assert_harmless(boss.get("deadjob", error=HOSTILE))
    for action in ("cancel", "reschedule"):
        assert_harmless(boss.ask("job", action, made["job"].pk))
    for action in ("requeue", "requeue_edited", "delete"):
        assert_harmless(boss.ask("deadjob", action, made["deadjob"].pk))
    assert_harmless(boss.client.post(boss.url("queuestate"), {"act": "resume", "queue": HOSTILE}))
    assert_harmless(boss.ask("kv", "delete", HOSTILE))
    assert_harmless(boss.get("job", limit_key__exact=HOSTILE))
    for action in ("hold", "release", "clear"):
        assert_harmless(boss.ask("limitkey", action, HOSTILE))
    for action in ("enable", "disable", "run_now", "delete"):
        assert_harmless(boss.ask("schedule", action, made["schedule"].pk))
    assert_harmless(
        boss.do("schedule", "enable", made["schedule"].pk)
    )  # refused, with a message that contains the name
    assert_harmless(boss.ask("donejob", "enqueue_again", made["donejob"].pk))
    assert_harmless(boss.do("donejob", "enqueue_again", made["donejob"].pk))  # the queue is paused, and named
    assert_harmless(boss.do("deadjob", "requeue", made["deadjob"].pk))
    assert_harmless(boss.page("job", made["deadjob"].pk))
    assert_harmless(boss.client.get("/admin/"))


def test_pages_comply_with_a_strict_content_security_policy(boss):
    for model, make in PAGES.items():
        row = make()
        for response in (boss.get(model), boss.page(model, row.pk)):
            assert response["Content-Security-Policy"] == POLICY
            assert_harmless(response)


@pytest.mark.parametrize("model", ["job", "deadjob", "donejob"])
def test_rows_with_invalid_json_are_shown(boss, database, model):
    row = PAGES[model]()
    columns = ["args", "kwargs", "headers", "progress", "retry"] + (["result"] if model == "donejob" else [])
    with connections[database].cursor() as cursor:
        for column in columns:
            cursor.execute(f"UPDATE djqueue_{model} SET {column} = 'not {{json'")
        cursor.execute(f"UPDATE djqueue_{model} SET errors = 'nonsense\n[1]\n3\nnull\n'")
        if model != "deadjob":
            cursor.execute(f"UPDATE djqueue_{model} SET status = 'strange'")
    assert "not {json" in words(boss.get(model))
    assert "not {json" in words(boss.page(model, row.pk))
    assert "nonsense" in words(boss.page(model, row.pk))


@pytest.mark.parametrize("number", ["9" * 5000, None, -1, "²", [1]])
def test_invalid_attempt_numbers_cause_no_error(boss, number):
    entry = {"attempt": number, "at": ago(5).isoformat(), "before_requeue": True}
    assert boss.page("deadjob", DeadJobFactory(errors=[entry, entry]).pk).status_code == 200


@pytest.mark.parametrize(
    "progress",
    [
        None,
        3,
        [],
        {},
        {"done": 1},
        {"done": "1", "total": "2"},
        {"done": 1, "total": 0},
        {"done": True, "total": 1},
        {"done": 1e308, "total": 1e308},
        {"done": 1.5, "total": 10**400},
    ],
)
def test_invalid_progress_causes_no_error(boss, progress):
    assert boss.page("job", JobFactory(progress=progress).pk).status_code == 200


@pytest.mark.parametrize("task", ["tests.app.tasks.log_in", "gone.away"])
def test_sensitive_arguments_are_masked_on_every_page(boss, task):
    secret = {"args": ["ada", "hunter2"], "task": task, "headers": {"note": "hunter2"}}
    error = {
        "last_error": "bad hunter2",
        "errors": [{"message": "bad hunter2", "traceback": "T 'hunter2'", "attempt": 1}],
    }
    rows = {
        "job": JobFactory(**secret, **error, progress={"done": 1, "total": 2, "message": "hunter2"}),
        "deadjob": DeadJobFactory(**secret, **error),
        "donejob": DoneJobFactory(**secret, **error, result=["hunter2"]),
        "schedule": ScheduleFactory(task=secret["task"], args=secret["args"]),
    }
    for model, row in rows.items():
        for response in (boss.get(model), boss.page(model, row.pk)):
            assert response.status_code == 200
            assert "hunter2" not in response.content.decode()
        assert "********" in words(boss.page(model, row.pk))
    assert "hunter2" not in boss.ask("deadjob", "requeue_edited", rows["deadjob"].pk).content.decode()
    known = task != "gone.away"
    assert ('"ada"' in words(boss.ask("deadjob", "requeue_edited", rows["deadjob"].pk))) is known
    assert ("because this task is not registered" not in words(boss.page("deadjob", rows["deadjob"].pk))) is known


def test_a_short_sensitive_argument_is_masked_on_the_page_of_a_job(boss):
    """It is too short to be masked wherever it occurs in a text."""
    row = JobFactory(task="tests.app.tasks.log_in", args=["ada", "q~q"])
    assert "q~q" not in boss.page("job", row.pk).content.decode()


DJANGOS = ("field-", "action-checkbox-column")  # classes of cells in Django's result list


def test_tables_have_headers_and_fields_have_labels(boss):
    job = DeadJobFactory()
    for response in (boss.get("deadjob"), boss.page("deadjob", job.pk), boss.get("queuestate")):
        for tag, attrs in Cells(response.content.decode()).tags:
            if tag == "th":
                assert attrs.get("scope") in ("row", "col") or attrs["class"].startswith(DJANGOS), attrs
    html = boss.ask("deadjob", "requeue", job.pk).content.decode()
    labels = {attrs.get("for") for tag, attrs in Cells(html).tags if tag == "label"}
    inputs = [
        attrs
        for tag, attrs in Cells(html).tags
        if tag == "input" and attrs.get("type") not in ("hidden", "submit", "search")
    ]
    assert inputs
    assert all(attrs["id"] in labels for attrs in inputs)


def test_another_site_uses_its_own_urls(boss):
    boss.site = "backstage"
    for number in range(8):
        DeadJobFactory(args=[number])
    response = boss.get("deadjob")
    assert len(response.context["cl"].result_list) == 7
    job = response.context["cl"].result_list[0]
    page = boss.page("deadjob", job.pk).content.decode()
    assert "/backstage/djqueue/deadjob/" in page
    assert '"/admin/' not in page
    done = boss.do("deadjob", "requeue", job.pk, from_page=str(job.pk))
    assert done.redirect_chain[-1][0] == f"/backstage/djqueue/job/{job.pk}/change/"
    assert '"/admin/' not in boss.get("queuestate").content.decode()
    assert boss.get("deadjob", max_attempts=3).context["cl"].result_count == 7
    assert boss.get("deadjob", max_attempts__exact=99).context["cl"].result_count == 0
    assert boss.get("deadjob", kwargs__contains="x").status_code == 400


def test_texts_are_translatable(boss, settings):
    """With German active, Django's texts are translated, and missing translations of djqueue's texts cause no error."""
    job = DeadJobFactory()
    settings.LANGUAGE_CODE = "de"
    assert "Abmelden" in words(boss.get("deadjob"))
    assert boss.page("deadjob", job.pk).status_code == 200
    assert json.dumps(words(boss.ask("deadjob", "requeue", job.pk)))


def test_worker_page_is_readable(boss):
    row = WorkerFactory(memory=180_000_000, queues=["mail", "money"], started_at=datetime(2030, 1, 2, tzinfo=UTC))
    page = boss.page("worker", row.pk)
    for part in ("171.7\xa0MB", "mail, money", "● alive", "2030-01-02 01:00:00 CET"):
        assert part.replace("\xa0", " ") in words(page).replace("\xa0", " ")
    assert "icon-no" not in page.content.decode()
    assert "171.7" in words(boss.get("worker"))


def test_pages_and_history_show_times_in_one_format(boss):
    job = DeadJobFactory(failed_at=datetime(2030, 1, 2, tzinfo=UTC))
    entry = KVFactory(updated_at=datetime(2030, 1, 2, tzinfo=UTC))
    for html in (
        boss.text("deadjob"),
        boss.page("deadjob", job.pk).content.decode(),
        boss.text("kv"),
        boss.page("kv", entry.pk).content.decode(),
    ):
        assert "2030-01-02 01:00:00 CET" in html
        assert "Jan. 2" not in html
    boss.do("deadjob", "requeue", job.pk)
    when = timezone.localtime(LogEntry.objects.get().action_time)
    assert f"{when:%Y-%m-%d %H:%M:%S %Z}" in words(boss.get("job", f"{job.pk}/history/"))
