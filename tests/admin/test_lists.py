"""Columns, filters, paging and grouping of the lists."""

from __future__ import annotations

import pytest
from django.db import connections

from tests.admin.tools import words
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

MODELS = ["job", "deadjob", "donejob", "queuestate", "limitkey", "worker", "schedule", "kv"]


@pytest.mark.parametrize("model", MODELS)
def test_every_list_opens_empty(boss, model):
    assert boss.get(model).status_code == 200


def test_every_list_shows_its_rows(boss):
    JobFactory(claimed=True, kwargs={"order_id": 42})
    JobFactory(scheduled=True, queue="later")
    DeadJobFactory(last_error="no money left")
    DoneJobFactory(claimed_at=ago(3), completed_at=ago(1))
    QueueStateFactory(queue="held", paused=True, paused_at=ago(60))
    LimitKeyFactory(key="api:stripe", rate=10.0, burst=5, held_until=ago(-60))
    WorkerFactory(identity="w-1", heartbeat_at=ago(300))
    ScheduleFactory(name="nightly", cron="0 3 * * *")
    KVFactory(key="colour", value="blue")
    found = {model: words(boss.get(model)) for model in MODELS}
    assert "▶ running" in found["job"]
    assert "1, order_id=42" in found["job"]
    assert "1/3" in found["job"]
    assert "somebody" in found["job"]
    assert "no money left" in found["deadjob"]
    assert "2.0 s" in found["donejob"]
    assert "held" in found["queuestate"]
    assert "paused" in found["queuestate"]
    assert "api:stripe ❚❚ held released in" in found["limitkey"]
    assert "10/s (burst 5) set here" in found["limitkey"]
    assert "! lost" in found["worker"]
    assert "0 3 * * *" in found["schedule"]
    assert "blue" in found["kv"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, {"waits", "runs", "held", "later", "failed"}),
        ({"status": "pending"}, {"waits", "failed"}),
        ({"status": "claimed"}, {"runs", "held"}),
        ({"status": "running"}, {"runs"}),
        ({"status": "scheduled"}, {"later"}),
        ({"queue": "b"}, {"runs"}),
        ({"queue": "nowhere"}, set()),
        ({"queue": "a\x00"}, set()),
        ({"task": "shop.charge"}, {"later"}),
        ({"errors": "yes"}, {"failed"}),
        ({"errors": "no"}, {"waits", "runs", "held", "later"}),
        ({"late": "minute"}, {"failed"}),
        ({"late": "day"}, set()),
        ({"status": "pending", "errors": "no", "queue": "a"}, {"waits"}),
    ],
)
def test_filters(boss, query, expected):
    JobFactory(queue="a", args=["waits"])
    JobFactory(queue="b", args=["runs"], claimed=True)
    JobFactory(queue="c", args=["held"], claimed=True, started=False)
    JobFactory(queue="a", args=["later"], scheduled=True, task="shop.charge")
    JobFactory(
        queue="a", args=["failed"], errors=[{"attempt": 1, "message": "x"}], run_at=ago(3600), enqueued_at=ago(3700)
    )
    page = words(boss.get("job", **query))
    assert {name for name in ("waits", "runs", "held", "later", "failed") if f'"{name}"' in page} == expected


def test_filter_choices_list_existing_queues_and_tasks(boss):
    JobFactory(queue="waiting-room")
    JobFactory(queue="not-yet", scheduled=True)
    JobFactory(queue="at-work", claimed=True)
    page = words(boss.get("job"))
    for name in ("waiting-room", "not-yet", "at-work", "tests.app.tasks.add", "shop.charge"):
        assert name in page


def test_task_filter_of_dead_jobs_lists_removed_tasks(boss):
    DeadJobFactory(task="gone.away")
    assert "gone.away" in [name for name, _ in boss.get("deadjob").context["cl"].filter_specs[2].lookup_choices]


def test_other_lookups_are_refused(boss):
    """They would reveal masked values and scan the table."""
    JobFactory(task="tests.app.tasks.log_in", args=["ada", "hunter2"])
    for lookup in ("args__contains", "kwargs__startswith", "last_error__regex", "id__gt"):
        assert boss.get("job", **{lookup: "hunter2"}).status_code == 400


def test_invalid_page_number_causes_no_error(boss):
    JobFactory()
    for page in ("0", "99", "x"):
        assert boss.get("job", p=page).status_code == 200


def test_columns_without_an_index_cannot_be_sorted(boss):
    for number in range(3):
        JobFactory(args=[f"n{number}"])
    expected = [text for text in words(boss.get("job")).split() if text.startswith('"n')]
    for order in range(1, 10):
        assert [text for text in words(boss.get("job", o=order)).split() if text.startswith('"n')] == expected


def test_lists_are_sorted_latest_first(boss):
    for number in (1, 2, 3):
        JobFactory(args=[f"n{number}"])
        DeadJobFactory(args=[f"n{number}"], failed_at=ago(number * 60))
    assert [text for text in words(boss.get("job")).split() if text.startswith('"n')] == ['"n3"', '"n2"', '"n1"']
    assert [text for text in words(boss.get("deadjob")).split() if text.startswith('"n')] == ['"n1"', '"n2"', '"n3"']


def test_long_values_are_not_read_for_lists(boss):
    JobFactory(args=["x" * 5000])
    KVFactory(value="y" * 5000)
    assert "too long to show" in words(boss.get("job"))
    assert "too long to show" in words(boss.get("kv"))


def test_counts_are_capped(boss, monkeypatch):
    from djqueue.admin.paginator import CappedPaginator

    monkeypatch.setattr(CappedPaginator, "cap", 120)
    for _ in range(120):
        DeadJobFactory()
    assert "120 dead jobs" in words(boss.get("deadjob"))
    DeadJobFactory()
    page = words(boss.get("deadjob"))
    assert "120+ dead jobs" in page
    assert boss.get("deadjob", p=3).context["cl"].result_list.count() == 20
    assert len(boss.get("deadjob", p=2).context["cl"].result_list) == 50
    assert boss.get("deadjob", p=4, follow=False).status_code == 302


def test_dead_jobs_are_grouped_by_task_and_error(boss):
    for number in range(5):
        DeadJobFactory(last_error=f"order {number} has no address\nand more", args=[number])
    DeadJobFactory(last_error="no route to host 0x7f01ab", task="shop.charge")
    response = boss.get("deadjob")
    groups = [(row["group"].task, row["group"].error, row["group"].count) for row in response.context["groups"]]
    assert groups == [
        ("tests.app.tasks.add", "order # has no address", 5),
        ("shop.charge", "no route to host #", 1),
    ]
    link = response.context["groups"][0]["link"]
    followed = boss.client.get(boss.url("deadjob") + link)
    assert followed.context["cl"].result_count == 5
    assert "groups" not in followed.context


@pytest.mark.parametrize("error", ["50% of 'a_b' is [!] gone", "", "100!", "_", "\\d+ \\"])
def test_link_of_an_error_group_finds_its_jobs(boss, error):
    DeadJobFactory(last_error=error)
    DeadJobFactory(last_error="Another thing")
    groups = boss.get("deadjob").context["groups"]
    links = {row["group"].error: row["link"] for row in groups}
    [link] = [link for shown, link in links.items() if shown != "Another thing"]
    found = boss.client.get(boss.url("deadjob") + link).context["cl"].result_list
    assert error in [row.last_error for row in found]
    assert not error or len(found) == 1


def test_queue_list_shows_counts_with_links(boss):
    JobFactory(queue="mail & more")
    JobFactory(queue="mail & more", scheduled=True)
    JobFactory(queue="mail & more", status="blocked", limit_key="tenant:1")
    DeadJobFactory(queue="mail & more")
    [row] = boss.get("queuestate").context["queues"]
    assert [count for count, _ in row["counts"]] == [1, 1, 1, 0, 0, 1]
    for (_, url), expected in zip(row["counts"], [1, 1, 1, 0, None, 1], strict=True):
        if expected is not None:
            assert boss.client.get(url).context["cl"].result_count == expected


def test_queue_list_has_pages_and_search(boss):
    for number in range(250):
        ThroughputFactory(queue=f"mail-{number:03}")
    JobFactory(queue="Mailing")

    def shown(**query):
        return [row["name"] for row in boss.get("queuestate", **query).context["queues"]]

    assert shown() == ["Mailing", *(f"mail-{number:03}" for number in range(99))]
    assert shown(p=3)[-1] == "mail-249"
    assert shown(p="x") == shown(p=1)
    assert shown(q="MAIL-24") == [f"mail-{number}" for number in range(240, 250)]
    assert shown(q="nothing") == []
    assert "251 queues" in words(boss.get("queuestate"))
    assert "?q=mail&amp;p=2" in boss.text("queuestate", q="mail")
    response = boss.client.post(boss.url("queuestate", p=3), {"act": "pause", "queue": "mail-249", "confirmed": "yes"})
    assert response.url == boss.url("queuestate", p=3)


@pytest.mark.parametrize(
    ("since", "expected"), [("hour", {1}), ("day", {1, 2}), ("week", {1, 2, 3}), ("x", {1, 2, 3, 4})]
)
@pytest.mark.parametrize("model", ["deadjob", "donejob"])
def test_filter_by_time(boss, model, since, expected):
    make, field = {"deadjob": (DeadJobFactory, "failed_at"), "donejob": (DoneJobFactory, "completed_at")}[model]
    for number, hours in enumerate((0.5, 20, 100, 1000), 1):
        make(**{field: ago(hours * 3600)}, priority=number, queue=f"q{number % 2}")
    assert {job.priority for job in boss.get(model, since=since).context["cl"].result_list} == expected
    one_queue = boss.get(model, since=since, queue="q1").context["cl"].result_list
    assert {job.priority for job in one_queue} == expected & {1, 3}


def test_lists_can_be_sorted_where_an_index_serves(boss):
    for number in (2, 1, 3):
        JobFactory(scheduled=True, run_at=ago(-3600 * number), priority=number)
        DeadJobFactory(failed_at=ago(number), priority=number)
        DoneJobFactory(completed_at=ago(number), priority=number)

    def order(model, **query):
        return [job.priority for job in boss.get(model, **query).context["cl"].result_list]

    assert order("job", status="scheduled", o="6") == [1, 2, 3]
    assert order("job", status="scheduled", o="-6") == [3, 2, 1]
    assert order("deadjob", o="3") == [3, 2, 1]
    assert order("deadjob", o="-3") == [1, 2, 3]
    assert order("donejob", queue="default", o="9") == [3, 2, 1]
    assert order("donejob", queue="default", o="-9") == [1, 2, 3]
    for model, query in (("job", {"o": "6"}), ("donejob", {"o": "9"})):  # without an index
        assert order(model, **query) == [3, 1, 2]
        assert "sortable" not in boss.text(model, **query)


@pytest.mark.databases("postgresql", "mysql")
def test_an_index_serves_sorting_and_time_filters(boss, database):
    """Beside 3,000 rows, of which few are in the last hour."""
    scheduled = [JobFactory.build(run_at=ago(-3600), status="scheduled") for _ in range(3000)]
    dead = [DeadJobFactory.build(failed_at=ago(90_000)) for _ in range(3000)]
    done = [DoneJobFactory.build(completed_at=ago(90_000)) for _ in range(3000)]
    for made in (scheduled, dead, done):
        type(made[0])._base_manager.using(database).bulk_create(made)
    with connections[database].cursor() as cursor:
        for table in ("job", "deadjob", "donejob"):
            words_ = "ANALYZE" if database == "postgresql" else "ANALYZE TABLE"
            cursor.execute(f"{words_} djqueue_{table}")
    for model, query, index in (
        ("job", {"status": "scheduled", "o": "6"}, "djqueue_job_due"),
        ("job", {"status": "scheduled", "o": "-6"}, "djqueue_job_due"),
        ("deadjob", {"o": "3"}, "djqueue_dead_sweep"),
        ("deadjob", {"o": "-3"}, "djqueue_dead_sweep"),
        ("deadjob", {"since": "hour"}, "djqueue_dead_sweep"),
        ("donejob", {"queue": "default", "o": "9"}, "djqueue_done_sweep"),
        ("donejob", {"queue": "default", "o": "-9"}, "djqueue_done_sweep"),
        ("donejob", {"since": "hour"}, "djqueue_done_sweep"),
    ):
        ids = boss.get(model, **query).context["cl"].queryset.values_list("pk", flat=True)[:20]
        assert index in ids.explain(), (model, query)


def test_error_groups_show_the_exception_and_when_it_was_seen(boss):
    entry = {"attempt": 3, "message": "x", "at": ago(1).isoformat()}
    for seconds, exception in ((60, "old.Error"), (7200, "older.Error"), (5, "requests.exceptions.Timeout")):
        DeadJobFactory(last_error="no answer", failed_at=ago(seconds), errors=[entry | {"exception": exception}])
    response = boss.get("deadjob", o="3")
    [row] = response.context["groups"]
    assert (row["group"].exception, row["group"].count) == ("requests.exceptions.Timeout", 3)
    assert "Timeout no answer 2 h ago 5." in words(response)


def test_task_names_break_at_dots(boss):
    JobFactory(task="shop.<b>.charge")
    for html in (boss.text("job"), boss.page("job", JobFactory(task="shop.<b>.charge").pk).content.decode()):
        assert "shop.<wbr>&lt;b&gt;.<wbr>charge" in html
