"""Metrics, read back by the parser of the Prometheus client."""

from __future__ import annotations

import threading

import pytest
from asgiref.sync import async_to_sync
from django.db import connections
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.urls import path
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

import djqueue
from djqueue import call
from djqueue.contrib.prometheus import Collector, metrics
from djqueue.models import Throughput
from tests.app.tasks import add
from tests.factories import (
    DeadJobFactory,
    JobFactory,
    QueueStateFactory,
    ScheduleFactory,
    ThroughputFactory,
    WorkerFactory,
    ago,
)
from tests.tools import claim_one, eventually, in_thread, rows
from tests.worker import tasks
from tests.worker.site import site

PLAIN = ("postgresql", "sqlite", "mysql")
pytestmark = pytest.mark.databases(*PLAIN)
urlpatterns = [path("metrics", metrics)]
TOKEN = {"headers": {"Authorization": "Bearer s3cret"}}

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def scrape(configure, settings):
    configure(HEALTH_TOKEN="s3cret")
    settings.ROOT_URLCONF = __name__

    def read() -> Samples:
        answer = Client().get("/metrics", **TOKEN)
        assert answer.status_code == 200
        families = list(parse(answer.content.decode()))
        return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}

    return read


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[f"djqueue_{name}", frozenset(labels.items())]


def counters(samples: Samples) -> Samples:
    endings = ("_total", "_bucket", "_count", "_sum")
    return {key: number for key, number in samples.items() if key[0].endswith(endings)}


def test_the_numbers_are_right_while_two_workers_run_and_afterwards(scrape, database, tmp_path):
    doubles = tasks.double.enqueue_many([call(n) for n in range(60)])
    tasks.adouble.using(queue="other").enqueue_many([call(n) for n in range(40)])
    tasks.fail_until.enqueue(3)
    tasks.raise_it.enqueue("permanent")
    tasks.double.using(delay=3600).enqueue(1)
    before = scrape()
    assert value(before, "workers") == 0
    assert value(before, "jobs", queue="default", state="pending") == 62
    assert value(before, "jobs", queue="other", state="pending") == 40
    seen = [before]
    with site(database, tmp_path) as place:
        place.start_ready(HEALTH_TOKEN="s3cret")
        place.start_ready(HEALTH_TOKEN="s3cret")

        def is_over() -> bool:
            seen.append(scrape())
            return value(seen[-1], "jobs", queue="default", state="done") == 61 and (
                value(seen[-1], "jobs", queue="other", state="done") == 40
            )

        eventually(is_over, 60)
        djqueue.wait(doubles[-1].id, 60)
        last = scrape()
        assert value(last, "workers") == 2
    for earlier, later in zip(seen, [*seen[1:], last], strict=True):
        for key, number in counters(earlier).items():
            assert later[key] >= number, key
    expected = {
        ("default", "tests.worker.tasks.double"): (60, 0, 0, 0),
        ("other", "tests.worker.tasks.adouble"): (40, 0, 0, 0),
        ("default", "tests.worker.tasks.fail_until"): (1, 0, 0, 2),
        ("default", "tests.worker.tasks.raise_it"): (0, 1, 0, 0),
    }
    for (queue, task), numbers in expected.items():
        for outcome, number in zip(("done", "dead", "cancelled", "retrying"), numbers, strict=True):
            assert value(last, "finished_total", queue=queue, task=task, outcome=outcome) == number, (task, outcome)
    assert len([key for key in last if key[0] == "djqueue_finished_total"]) == 4 * len(expected)
    for state, number in {"pending": 0, "scheduled": 1, "claimed": 0, "dead": 1}.items():
        assert value(last, "jobs", queue="default", state=state) == number, state
    for name in ("wait_seconds", "run_seconds"):
        assert value(last, f"{name}_count", queue="default") == 60 + 3 + 1
        assert value(last, f"{name}_bucket", queue="default", le="+Inf") == 64
        assert value(last, f"{name}_count", queue="other") == 40
        assert value(last, f"{name}_sum", queue="other") > 0
    assert value(last, "oldest_pending_seconds", queue="default") == 0


def test_histograms_count_attempts_up_to_each_bound(scrape):
    for seconds in (0.001, 0.3, 20):
        JobFactory(run_at=ago(seconds), enqueued_at=ago(seconds))
        job = claim_one()
        job.clock -= seconds
        job.ack()
    djqueue.cancel(JobFactory().pk)
    found = scrape()
    for le, number in {"0.1": 1, "0.25": 1, "0.5": 2, "10.0": 2, "30.0": 3, "7200.0": 3, "+Inf": 3}.items():
        assert value(found, "run_seconds_bucket", queue="default", le=le) == number, le
        if float(le) > 0.3:  # the clock of the database goes on between the row and the claim
            assert value(found, "wait_seconds_bucket", queue="default", le=le) == number, le
    assert 20.3 <= value(found, "run_seconds_sum", queue="default") < 30
    labels = {"queue": "default", "task": "tests.app.tasks.add"}
    assert value(found, "finished_total", **labels, outcome="cancelled") == 1


def test_ages_and_lags(scrape):
    JobFactory(enqueued_at=ago(500), run_at=ago(90))  # delayed or retried: it waits since its run_at
    JobFactory(enqueued_at=ago(50), run_at=ago(4000))  # a run_at in the past means now
    JobFactory(queue="later", scheduled=True)
    JobFactory(queue="limited", status="blocked", limit_key="k")
    JobFactory(queue="busy", claimed=True)
    DeadJobFactory(queue="sad")
    ScheduleFactory(next_at=ago(70))
    ScheduleFactory(next_at=ago(7000), enabled=False)
    ScheduleFactory(next_at=ago(-60))
    QueueStateFactory(queue="unused")
    WorkerFactory()
    WorkerFactory(heartbeat_at=ago(60))
    WorkerFactory(stopped_at=ago(1))
    found = scrape()
    assert 90 <= value(found, "oldest_pending_seconds", queue="default") < 100
    assert value(found, "oldest_pending_seconds", queue="later") == 0
    assert 70 <= value(found, "schedule_lag_seconds") < 80
    assert value(found, "workers") == 1
    states = {("default", "pending"): 2, ("later", "scheduled"): 1, ("limited", "blocked"): 1}
    states |= {("busy", "claimed"): 1, ("sad", "dead"): 1}
    for (queue, state), number in states.items():
        assert value(found, "jobs", queue=queue, state=state) == number


def test_an_empty_database_has_no_series_of_queues(scrape):
    assert {key[0]: number for key, number in scrape().items()} == {
        "djqueue_workers": 0,
        "djqueue_schedule_lag_seconds": 0,
    }


def test_a_roll_up_is_not_seen(scrape):
    """Invariant: no counter decreases, although roll_up() deletes rows and inserts their sums meanwhile."""
    for number in range(200):
        ThroughputFactory(
            minute=ago(600 + 60 * (number % 5)).replace(second=0, microsecond=0), wait_sum=0.1, run_sum=0.7
        )
    first, over = counters(scrape()), threading.Event()

    def roll_up() -> None:
        try:
            for _ in range(5):
                djqueue.maintenance.roll_up()
                rows(Throughput).update(rolled=0)
        finally:
            over.set()

    thread = threading.Thread(target=in_thread, args=[roll_up])
    thread.start()
    scrapes = 0
    while not over.is_set() or not scrapes:
        assert counters(scrape()) == first
        scrapes += 1
    thread.join()
    assert rows(Throughput).count() <= 10
    assert counters(scrape()) == first


@pytest.mark.databases(*PLAIN)
def test_the_number_of_statements_does_not_depend_on_the_number_of_queues(scrape, database):
    numbers = []
    for start, stop in [(0, 1), (1, 30)]:
        for n in range(start, stop):
            JobFactory(queue=f"q{n}", task=f"task {n}")
            ThroughputFactory(queue=f"q{n}", task=f"task {n}")
        with CaptureQueriesContext(connections[database]) as sent:
            scrape()
        numbers.append(len(sent))
    assert numbers[0] == numbers[1] <= 6, sent.captured_queries
    assert not any("djqueue_donejob" in query["sql"] for query in sent.captured_queries)  # there may be millions


@pytest.mark.databases("sqlite")
def test_the_view_is_closed_and_read_only(scrape, database):
    assert Client().get("/metrics").status_code == 404
    assert Client().get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 404
    answer = Client().get("/metrics", **TOKEN)
    assert answer["Content-Type"].startswith("text/plain; version=")
    assert "no-store" in answer["Cache-Control"]
    assert Client().post("/metrics", **TOKEN).status_code == 405
    assert Client().post("/metrics").status_code == 404


@pytest.mark.databases("sqlite")
def test_the_token_suffices_where_every_view_requires_a_login(scrape, settings):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    assert value(scrape(), "workers") == 0
    assert Client().get("/metrics").status_code == 404


@pytest.mark.databases("sqlite")
def test_openmetrics_is_served_on_request(scrape, database):
    add.enqueue(1)
    headers = TOKEN["headers"] | {"Accept": "application/openmetrics-text; version=1.0.0"}
    answer = Client().get("/metrics", headers=headers)
    assert answer["Content-Type"].startswith("application/openmetrics-text")
    assert "djqueue_jobs" in {family.name for family in parse_openmetrics(answer.content.decode())}


@pytest.mark.databases("sqlite")
def test_the_view_works_in_async_servers(scrape, database):
    answer = async_to_sync(AsyncClient().get)("/metrics", **TOKEN)
    assert (answer.status_code, b"djqueue_workers 0.0" in answer.content) == (200, True)


@pytest.mark.databases("sqlite")
def test_registering_a_collector_does_not_use_the_database(database):
    registry = CollectorRegistry(auto_describe=True)
    with CaptureQueriesContext(connections[database]) as sent:
        registry.register(Collector())
    assert len(sent) == 0
    assert registry.get_sample_value("djqueue_workers") == 0
