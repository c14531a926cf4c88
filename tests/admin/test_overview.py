"""The overview answers what an operator asks, with a fixed number of statements, for those who may see it."""

from __future__ import annotations

import re
import threading
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

import djqueue
from djqueue import schedules
from djqueue.admin.overview import cache, parts, snapshot
from djqueue.admin.overview.cache import Cache
from djqueue.models import DeadJob, Job
from djqueue.operations import backlog
from djqueue.operations.summary import QueueSummary
from tests.admin.test_pages import HOSTILE, assert_harmless
from tests.admin.tools import Cells, Person, words
from tests.conftest import PLAIN
from tests.factories import (
    DeadJobFactory,
    JobFactory,
    QueueStateFactory,
    ScheduleFactory,
    ThroughputFactory,
    WorkerFactory,
    ago,
    now,
)
from tests.tools import rows

pytestmark = pytest.mark.databases(*PLAIN)

ALL = ["view_job", "view_deadjob", "view_queuestate", "view_worker", "view_schedule"]


@pytest.fixture(autouse=True)
def fresh():
    snapshot.forget()
    snapshot.THE_DAY.forget()
    parts._rendered.clear()
    yield
    snapshot.forget()
    snapshot.THE_DAY.forget()


def this_minute():
    return now().replace(second=0, microsecond=0)


def part(response, name: str) -> str:
    """The text of one part of the page."""
    html = response.content.decode()
    [found] = re.findall(rf'<section id="djq-{name}".*?</section>', html, re.DOTALL)
    return " ".join(Cells(found).texts)


def links(response) -> list[str]:
    return [attrs["href"] for tag, attrs in Cells(response.content.decode()).tags if tag == "a" and "href" in attrs]


# Access


def test_the_overview_is_the_first_entry_of_the_app_on_every_site(boss, people):
    for site, person in (("admin", boss), ("backstage", Person(boss.client, boss.user, "backstage"))):
        index = boss.client.get(f"/{site}/")
        [app] = [app for app in index.context["app_list"] if app["app_label"] == "djqueue"]
        assert app["models"][0]["name"].strip() == "Overview"
        assert app["models"][0]["admin_url"] == f"/{site}/djqueue/overview/"
        page = person.get("overview")
        assert page.status_code == 200
        assert f"/{site}/djqueue/overview/" in page.content.decode()


def test_the_entry_is_no_model_of_the_project(boss):
    assert "overview" not in apps.all_models["djqueue"]
    assert boss.get("overview").status_code == 200
    assert not ContentType.objects.filter(app_label="djqueue", model="overview").exists()


def test_viewing_needs_the_permission_to_view_jobs(people):
    others = people("view_deadjob", "view_worker", "view_schedule", "view_queuestate")
    assert others.get("overview").status_code == 403
    assert others.get("overview", fragment=1).status_code == 403
    [app] = others.client.get("/admin/").context["app_list"]
    assert "Overview" not in [model["name"].strip() for model in app["models"]]
    anybody = Person(Client(), None)
    assert anybody.get("overview", fragment=1).redirect_chain[0][0].startswith("/admin/login/")
    assert people("view_job").get("overview").status_code == 200
    assert people("change_job").get("overview").status_code == 200


def test_a_user_sees_only_the_parts_and_links_that_are_allowed(people):
    JobFactory(claimed=True, worker="w")
    WorkerFactory(identity="w")
    DeadJobFactory(last_error="secret cause", task="shop.charge")
    ScheduleFactory(name="nightly", next_at=ago(-60))
    page = people("view_job").get("overview")
    html = page.content.decode()
    for hidden in ("djq-queues", "djq-workers", "secret cause", "nightly", 'name="pause"'):
        assert hidden not in html
    everything = people(*ALL).get("overview").content.decode()
    for shown in ("djq-queues", "djq-workers", "secret cause", "nightly"):
        assert shown in everything
    assert 'name="pause"' not in everything
    assert 'name="pause"' in people(*ALL, "pause_queuestate").get("overview").content.decode()
    allowed = {f"view_{match}" for match in re.findall(r'href="/admin/djqueue/(\w+)/', html)}
    assert allowed <= {"view_job", "view_overview"}


def test_markup_is_shown_escaped(boss):
    WorkerFactory(identity="w", name=HOSTILE, host=HOSTILE)
    JobFactory(claimed=True, worker="w", task=HOSTILE, queue=HOSTILE[:60])
    DeadJobFactory(task=HOSTILE, last_error=HOSTILE, errors=[{"exception": HOSTILE}])
    JobFactory(scheduled=True, task=HOSTILE, last_error=HOSTILE, failed_at=now())
    ScheduleFactory(name=HOSTILE, cron=HOSTILE, problem=HOSTILE, next_at=ago(-5))
    ScheduleFactory(name=f"{HOSTILE} 2", enabled=False, problem=HOSTILE)
    assert_harmless(boss.get("overview"))
    assert_harmless(boss.get("overview", fragment=1))
    assert_harmless(boss.get("overview", find=HOSTILE))


# The parts


def test_nothing_needs_attention_in_an_empty_queue(boss):
    page = boss.get("overview")
    assert "Nothing needs attention." in part(page, "attention")
    assert "There are no queues yet." in part(page, "queues")
    assert "No worker is running." in part(page, "workers")
    assert "No schedule will fire." in part(page, "next")
    assert re.search(r"as of \d\d:\d\d:\d\d", part(page, "attention"))


def test_findings_are_shown_with_remedy_and_link(boss):
    JobFactory(queue="mail")
    row = ScheduleFactory(name="nightly", enabled=False, problem="no such task")
    lost = WorkerFactory(heartbeat_at=ago(60), name="w9")
    page = boss.get("overview")
    text = part(page, "attention")
    assert "No worker is running." in text
    assert "Start a worker with manage.py runworker." in text
    assert "no such task" in text
    assert {f"/admin/djqueue/schedule/{row.pk}/change/", "/admin/djqueue/queuestate/?q=mail"} <= {*links(page)}
    assert any(link.startswith("/admin/djqueue/worker/host_3A") for link in links(page)), lost
    for link in links(page):
        if link.startswith("/admin/djqueue/"):
            assert boss.client.get(link).status_code == 200, link


def test_a_queue_shows_counts_rates_and_backlog(boss):
    for _ in range(30):
        JobFactory(queue="mail", enqueued_at=ago(90), run_at=ago(90))
    JobFactory(queue="mail", scheduled=True)
    JobFactory(queue="mail", claimed=True)
    DeadJobFactory(queue="mail")
    WorkerFactory(queues=["mail"], threads=4)
    ThroughputFactory(queue="mail", minute=this_minute() - timedelta(minutes=2), done=6, wait_bucket=9, run_bucket=8)
    ThroughputFactory(queue="mail", minute=this_minute() - timedelta(minutes=20), done=0, failed=3, dead=1)
    page = boss.get("overview")
    text = part(page, "queues")
    # 30 pending jobs; 6 ended in the one minute of the last five in which any did.
    assert "▶ running Pause … 5 min 30 1 0 1 1 1 min 3" in text
    assert re.search(r"1 min 3\d s 6 0 6 3 ", text)
    for link, count in {"job/?queue=mail&status=pending": 30, "deadjob/?queue=mail": 1}.items():
        [found] = {one for one in links(page) if one.endswith(link)}
        assert boss.client.get(found).context["cl"].result_count == count


@pytest.mark.parametrize(
    ("row", "ended", "threads", "expected"),
    [
        ({"pending": 0}, None, 4, 0.0),
        ({"pending": 100}, backlog.Recent(done=45, failed=5, seconds=300), 4, 600.0),
        ({"pending": 100, "paused": True}, backlog.Recent(done=50, seconds=300), 4, None),
        ({"pending": 100, "consumed": False}, backlog.Recent(done=50, seconds=300), 4, None),
        ({"pending": 100}, backlog.Recent(), 4, 50.0),  # by the mean run time of the last hour
        ({"pending": 100}, backlog.Recent(), 0, None),
    ],
)
def test_the_backlog_in_seconds(row, ended, threads, expected):
    from djqueue.operations.rates import Histogram

    run = Histogram()
    run.add(9, 10, 20.0)
    assert backlog.seconds(QueueSummary(queue="q", **{"consumed": True} | row), ended, run, threads) == expected
    if expected == 50.0:
        assert backlog.seconds(QueueSummary(queue="q", consumed=True, **row), ended, None, threads) is None


def test_queues_beyond_fifty_are_cut_and_those_with_findings_come_first(boss):
    for number in range(60):
        ThroughputFactory(queue=f"q{number:02}", minute=ago(86400 * 9).replace(second=0, microsecond=0), rolled=4)
    JobFactory(queue="z-without-worker", enqueued_at=ago(500), run_at=ago(500))
    WorkerFactory(queues=["q00"])
    page = boss.get("overview")
    first = re.findall(r'<th scope="row">(.*?)</th>', page.content.decode(), re.DOTALL)[0]
    assert first.endswith("z-without-worker")
    assert "Needs attention" in first
    assert "11 more queues." in part(page, "queues")
    assert "/admin/djqueue/queuestate/" in links(page)


def test_throughput_is_drawn_with_its_numbers(boss):
    ThroughputFactory(minute=this_minute() - timedelta(minutes=3), done=40)
    ThroughputFactory(minute=this_minute() - timedelta(minutes=3), done=0, failed=2, queue="other")
    ThroughputFactory(minute=this_minute() - timedelta(hours=5), done=1000)
    page = boss.get("overview")
    text = part(page, "throughput")
    assert "Last hour, per minute Done: 40 0.7 per minute; highest bar: 40" in text
    assert "Failed attempts: 2 < 0.1 per minute; highest bar: 2" in text
    assert "Last day, per 15 minutes Done: 1,040 0.7 per minute; highest bar: 1,000" in part(page, "day")


def test_a_group_of_failures_links_to_exactly_its_jobs(boss):
    """Errors that begin alike, older ones, and those of other tasks are other groups."""
    wanted = [DeadJobFactory(task="shop.charge", last_error=f"order {n}: timeout") for n in (5, 66)]
    DeadJobFactory(task="shop.charge", last_error="order 7: timeout of the card company")
    DeadJobFactory(task="shop.charge", last_error="order seven: timeout")
    DeadJobFactory(task="shop.charge", last_error="order 5 of 7: timeout")
    DeadJobFactory(task="shop.refund", last_error="order 8: timeout")
    DeadJobFactory(task="shop.charge", last_error="order 9: timeout", failed_at=ago(4000))
    retried = JobFactory(task="shop.charge", scheduled=True, last_error="order 4: timeout", failed_at=ago(9))
    JobFactory(task="shop.charge", scheduled=True, last_error="order 3: timeout", failed_at=ago(4000))
    page = boss.get("overview")
    assert "2 ✖ dead shop.charge order #: timeout" in part(page, "failures")
    assert "1 ◷ will be retried shop.charge order #: timeout" in part(page, "failures")
    assert "1 waits for a retry." in part(page, "failures")
    link = "/admin/djqueue/{}/?task=shop.charge&group=order+%23%3A+timeout&"
    [dead] = {one for one in links(page) if one.startswith(link.format("deadjob"))}
    [waiting] = {one for one in links(page) if one.startswith(link.format("job"))}
    assert {row.pk for row in boss.client.get(dead).context["cl"].result_list} == {job.pk for job in wanted}
    assert [row.pk for row in boss.client.get(waiting).context["cl"].result_list] == [retried.pk]
    query = {name: values[0] for name, values in parse_qs(urlsplit(dead).query).items()}
    assert boss.messages(boss.do("deadjob", "requeue", query=query)) == ["2 requeued, 0 skipped."]
    assert {*rows(Job).filter(status="pending").values_list("pk", flat=True)} == {job.pk for job in wanted}
    assert rows(DeadJob).count() == 5


@pytest.mark.parametrize(
    "error",
    [
        *(
            "",
            "boom",
            "50% of 'a_b' is [!] gone (really?)",
            "issue #5 of #77",
            "Ärger mit 7 Äpfeln",
            "\\d+ \\",
            "1\nmore",
        ),
        *("job 0198c9b4-0000-7000-8000-00000000000a at 0x7f01ab", "x" * 300, "7, " * 60, "abc deadbeefdeadbeef12"),
    ],
)
def test_the_link_of_a_group_finds_its_jobs_whatever_the_error(boss, error):
    DeadJobFactory(last_error=error)
    DeadJobFactory(last_error=f"another {error}")
    page = boss.get("overview")
    found = [one for one in dict.fromkeys(links(page)) if "group=" in one]
    assert len(found) == 2
    selected = [[row.last_error for row in boss.client.get(link).context["cl"].result_list] for link in found]
    assert sorted(selected) == sorted([[error], [f"another {error}"]])


def test_workers_are_shown_with_the_jobs_that_they_run(boss):
    WorkerFactory(identity="a:1:x", name="w1", threads=4, running=2, memory=180_000_000)
    WorkerFactory(identity="b:1:x", name="w2", heartbeat_at=ago(40))
    job = JobFactory(claimed=True, worker="a:1:x", task="shop.charge", claimed_at=ago(130))
    JobFactory(claimed=True, worker="a:1:x", task="shop.refund", claimed_at=ago(10), started=False)
    page = boss.get("overview")
    text = part(page, "workers")
    assert "2 of 4 threads are busy." in text
    assert re.search(r"w2 ! lost host:1 4\d\.\d s ago - - nothing", text)
    assert re.search(r"w1 ● alive host:1 \d.* ago 171\.7\sMB 2/4 shop.charge 2 min 1\d s shop.refund claimed", text)
    assert "data-suspect" not in page.content.decode()
    assert text.index("w2") < text.index("w1")  # what is lost comes first
    assert f"/admin/djqueue/job/{job.pk}/change/" in links(page)
    assert "/admin/djqueue/worker/a_3A1_3Ax/change/" in links(page)
    assert "/admin/djqueue/worker/a_3A1_3Ax/change/" in links(boss.get("job"))


def test_a_missing_heartbeat_makes_the_page_refresh_sooner(boss):
    WorkerFactory(heartbeat_at=ago(8))
    assert "data-suspect" in boss.get("overview", fragment=1).content.decode()


def test_what_runs_next(boss):
    schedules.create("nightly", task="tests.app.tasks.add", cron="30 2 * * mon-fri", timezone="Europe/Berlin")
    ScheduleFactory(name="soon", cron="", every=90, next_at=ago(-60))
    ScheduleFactory(name="off", enabled=False)
    job = JobFactory(scheduled=True, task="shop.charge", run_at=ago(-600))
    page = boss.get("overview")
    text = part(page, "next")
    assert "At 02:30, Monday to Friday 30 2 * * mon-fri Europe/Berlin" in text
    assert text.index("soon") < text.index("nightly")
    assert "Every 1 min 30 s" in text
    assert "off" not in text.split()
    assert "in 9 min 5" in text.replace("in 10 min", "in 9 min 59")
    assert f"/admin/djqueue/job/{job.pk}/change/" in links(page)


# Finding a job


def test_a_job_id_leads_to_its_page_in_any_table(boss):
    for job in (JobFactory(), DeadJobFactory()):
        page = boss.get("overview", find=f" {job.pk} ")
        assert str(job.pk) in words(page)
        assert page.redirect_chain[-1][0].endswith(f"/{job.pk}/change/")
    page = boss.get("overview", find="tasks.add")
    assert page.redirect_chain[-1][0] == "/admin/djqueue/job/?q=tasks.add"


# Pause and resume


def test_a_queue_is_paused_and_resumed_from_the_overview(boss):
    JobFactory(queue="mail&more")
    assert 'form="djq-act" name="pause" value="mail&amp;more"' in boss.get("overview").content.decode()
    asked = {"pause": "mail&more", "from_overview": "1"}
    page = boss.client.post(boss.url("queuestate"), asked)
    sent = dict(page.context["hidden"])
    assert page.context["back"] == "/admin/djqueue/overview/"
    done = boss.client.post(boss.url("queuestate"), sent, follow=True)
    assert done.redirect_chain == [("/admin/djqueue/overview/", 302)]
    assert djqueue.Queue("mail&more").paused
    assert "paused" in part(done, "queues")  # at once, although the data is kept for some seconds
    assert 'name="resume"' in done.content.decode()
    assert len(boss.log()) == 1
    boss.client.post(boss.url("queuestate"), {"resume": "mail&more", "confirmed": "yes"})
    assert not djqueue.Queue("mail&more").paused


def test_pausing_needs_its_permission(people):
    person = people(*ALL)
    assert person.client.post(person.url("queuestate"), {"pause": "mail", "confirmed": "yes"}).status_code == 403
    assert not djqueue.Queue("mail").paused


# The fragment


def test_the_fragment_has_only_the_parts_that_are_new(boss):
    QueueStateFactory(queue="mail", paused=True, paused_at=ago(60))
    fragment = boss.get("overview", fragment=1)
    html = fragment.content.decode()
    assert "<html" not in html
    versions = re.findall(r'<section id="djq-(\w+)" data-version="(\d+)"', html)
    assert [name for name, _ in versions] == ["attention", "queues", "throughput", "day", "failures", "workers", "next"]
    seen = ",".join(f"{name}:{version}" for name, version in versions)
    assert boss.get("overview", fragment=1, seen=seen).content == b""
    older = ",".join(f"{name}:{int(version) - (name == 'workers')}" for name, version in versions)
    again = boss.get("overview", fragment=1, seen=older).content.decode()
    assert re.findall(r'<section id="djq-(\w+)"', again) == ["workers"]
    for bad in ("x", "queues:", "queues:x", "queues:-1", "queues:1" + "0" * 40, ":,:", "²:²"):
        assert boss.get("overview", fragment=1, seen=bad).content.decode() == html


def test_a_kept_part_is_not_shown_to_a_user_with_other_permissions(boss, people):
    DeadJobFactory(last_error="secret cause")
    assert "secret cause" in boss.get("overview").content.decode()
    assert "secret cause" not in people("view_job").get("overview").content.decode()


def test_the_number_of_statements_is_fixed_and_a_kept_overview_sends_none(boss, database):
    def fill(count: int) -> None:
        for number in range(count):
            queue = f"q{number}"
            worker = WorkerFactory(queues=[queue], heartbeat_at=ago(60 if number % 3 else 0))
            JobFactory(queue=queue, claimed=True, worker=worker.identity)
            JobFactory(queue=queue, enqueued_at=ago(900), run_at=ago(900))
            JobFactory(queue=queue, scheduled=True, last_error="x", failed_at=now(), task=f"t.{number}")
            DeadJobFactory(queue=queue, task=f"t.{number}")
            ScheduleFactory(next_at=ago(-number))
            ScheduleFactory(enabled=False, problem="x")
            QueueStateFactory(queue=f"paused{number}", paused=True)
            JobFactory(queue=f"paused{number}")
            ThroughputFactory(queue=queue, minute=this_minute(), failed=9, dead=9)

    sent = []
    for count in (6, 30):
        fill(count) if not sent else [rows(m).all().delete() for m in (Job,)] and fill_more(fill, count)
        snapshot.forget()
        snapshot.THE_DAY.forget()
        with CaptureQueriesContext(connections[database]) as asked:
            assert boss.get("overview", fragment=1).status_code == 200
        sent.append(len(asked))
    assert sent[0] == sent[1]
    assert sent[1] <= 45
    with CaptureQueriesContext(connections[database]) as asked:
        boss.get("overview")
        boss.get("overview", fragment=1)
    assert len(asked) == 0


def fill_more(fill, count: int) -> None:
    from djqueue.models import QueueState

    rows(QueueState).all().delete()
    fill(count)


# The cache


def test_a_value_is_kept_for_400_times_as_long_as_it_took(database, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(cache.time, "monotonic", lambda: clock[0])
    took, computed = 0.0, []

    def compute() -> int:
        clock[0] += took
        computed.append(clock[0])
        return len(computed)

    kept = Cache(compute, 400)
    for took, lasts in ((0.001, 2.0), (0.05, 20.0), (5.0, 60.0)):  # noqa: B007 (compute reads it)
        value = kept.get().value
        clock[0] += lasts - 0.01
        assert kept.get().value == value
        clock[0] += 0.02
        assert kept.get().value == value + 1
        kept.forget()
    took = 0.01
    kept.get().seconds += 0.09  # it was also rendered
    clock[0] += 39.9
    assert kept.get().value == len(computed)
    assert len(computed) == 7


def test_an_urgent_value_is_kept_for_a_short_time(database, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(cache.time, "monotonic", lambda: clock[0])
    values = iter(range(100))

    def make() -> int:
        clock[0] += 1
        return next(values)

    kept = Cache(make, 400, is_urgent=lambda value: value == 0)
    kept.get()
    clock[0] += cache.LEAST
    assert kept.get().value == 1
    clock[0] += cache.LEAST
    assert kept.get().value == 1


def test_one_thread_computes_while_the_others_get_the_previous_value(database):
    entered, leave = threading.Event(), threading.Event()
    calls: list[int] = []

    def compute() -> int:
        calls.append(1)
        if len(calls) == 2:
            entered.set()
            leave.wait(30)
        return len(calls)

    kept = Cache(compute, 400)
    first = kept.get()
    first.made -= 10  # it was kept for long enough
    slow = threading.Thread(target=kept.get)
    slow.start()
    assert entered.wait(30)
    assert kept.get().value == first.value == 1
    leave.set()
    slow.join(30)
    assert kept.get().value == 2


def test_a_failed_computation_does_not_lock_the_cache(database):
    kept = Cache(lambda: 1 / 0, 400)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            kept.get()
