"""Whether jobs are being run: the check, its command, and the probes."""

from __future__ import annotations

import io
import json
import sys
import time

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.management import call_command
from django.db import DatabaseError, connections
from django.http import Http404
from django.test import Client, RequestFactory
from django.urls import reverse

from djqueue import views
from djqueue.operations import bounded, health
from tests.conftest import PLAIN
from tests.factories import JobFactory, WorkerFactory, ago
from tests.proxy import Proxy
from tests.tools import in_thread, statements_sent

TOKEN = {"Authorization": "Bearer s3cret"}
PROBES = ("live", "ready", "stats", "metrics")


@pytest.fixture
def client(configure) -> Client:
    configure(HEALTH_TOKEN="s3cret")
    return Client(headers=TOKEN)


@pytest.mark.databases(*PLAIN)
def test_a_live_worker_that_claims_makes_it_ready(database):
    worker = WorkerFactory(name="w1", queues=["default"], loops={"claimer": 1.5, "reaping": 20})
    found = health.check()
    assert (found.ready, found.problems) == (True, [])
    [row] = found.as_json()["workers"]
    assert (row["name"], row["state"], row["pid"]) == ("w1", "alive", worker.pid)
    assert 1.5 <= row["loops"]["claimer"] < 60
    assert set(row["loops"]) == {"claimer", "reaping"}


@pytest.mark.databases(*PLAIN)
@pytest.mark.parametrize(
    "workers",
    [
        [],
        [{"quiet": True}],
        [{"draining": True}],
        [{"queues": False}],
        [{"heartbeat_at": 60}],
        [{"stopped_at": 60}],
    ],
)
def test_without_a_live_worker_that_claims_it_is_not_ready(database, workers):
    for row in workers:
        WorkerFactory(**{name: ago(value) if name.endswith("_at") else value for name, value in row.items()})
    assert health.check().problems == [health.NO_WORKER]


@pytest.mark.databases(*PLAIN)
def test_a_worker_with_a_stalled_loop_does_not_count(database):
    WorkerFactory(loops={"claimer": 900})
    assert [problem.split(" has ")[0] for problem in health.check().problems] == ["Every live worker that claims jobs"]
    WorkerFactory(loops={"claimer": 1})
    assert health.check().ready


@pytest.mark.databases(*PLAIN)
def test_missing_tables_make_it_unready(database):
    WorkerFactory()
    with connections[database].cursor() as cursor:
        cursor.execute("ALTER TABLE djqueue_kv RENAME TO elsewhere")
        try:
            [problem] = health.check().problems
        finally:
            cursor.execute("ALTER TABLE elsewhere RENAME TO djqueue_kv")
    assert "djqueue_kv" in problem


@pytest.mark.databases(*PLAIN)
def test_the_check_sends_two_statements(database):
    with statements_sent() as sent:
        health.check()
    assert len(sent) == 2


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("connected", [True, False])
def test_a_database_that_hangs_makes_it_unready_in_time(database, tmp_path, monkeypatch, connected):
    monkeypatch.setattr(health, "ANSWER_WITHIN", 0.5)
    monkeypatch.setattr(bounded, "CONNECT_WITHIN", 2)
    proxy = Proxy(tmp_path)
    hanging = connections[database].settings_dict | {"HOST": str(tmp_path), "PORT": ""}

    def check() -> tuple[bool, str, float]:
        connection = connections[database]
        connection.settings_dict = hanging
        if connected:
            connection.ensure_connection()
        proxy.swallow(new=True)
        start = time.monotonic()
        [problem] = health.check().problems
        return connection is connections[database], problem, time.monotonic() - start

    try:
        restored, problem, seconds = in_thread(check)
    finally:
        proxy.close()
    assert restored
    assert problem.startswith("OperationalError")
    assert seconds < 30  # a hanging connection would last for ever


@pytest.mark.databases("postgresql", "mysql")
def test_a_statement_that_hangs_ends_with_its_connection(database):
    def hang() -> int:
        connection = connections[database]
        connection.ensure_connection()
        session = connection.connection.info.backend_pid if database == "postgresql" else 0
        with (
            pytest.raises(DatabaseError),
            bounded.hung_up_after(0.2, connection),
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT pg_sleep(50)" if database == "postgresql" else "SELECT SLEEP(50)")
        return session

    if session := in_thread(hang):
        with connections[database].cursor() as cursor:  # the server does not notice by itself
            cursor.execute(f"SELECT pg_terminate_backend({session})")


# The command


def run(*arguments: str) -> tuple[int, str]:
    output = io.StringIO()
    try:
        call_command("djqueue", *arguments, stdout=output)
    except SystemExit as done:
        return done.code, output.getvalue()
    return 0, output.getvalue()


@pytest.mark.databases(*PLAIN)
def test_the_command_shows_the_loops_of_the_workers(database):
    code, text = run("health")
    assert (code, text) == (1, f"✗ {health.NO_WORKER}\n")
    WorkerFactory(name="w1", loops={"claimer": 1.5})
    code, text = run("health")
    assert code == 0
    assert text.startswith(
        "✓ The database answers, and a worker runs jobs.\n\nWORKER  STATE  LOOP       LAST GOOD TURN\n"
    )
    assert [line.split()[:3] for line in text.splitlines()[3:]] == [
        ["w1", "alive", "heartbeat"],
        ["w1", "alive", "claimer"],
    ]
    code, text = run("health", "--json")
    assert (code, json.loads(text)["ready"], json.loads(text)["problems"]) == (0, True, [])


# The views


@pytest.mark.databases(*PLAIN)
def test_live_does_not_ask_the_database(database, client):
    with statements_sent() as sent:
        answer = client.get("/djqueue/live/")
    assert (answer.status_code, answer.content, sent) == (200, b"live\n", [])


@pytest.mark.databases(*PLAIN)
def test_ready_tells_nothing_but_its_status(database, client):
    answer = client.get("/djqueue/ready/")
    assert (answer.status_code, answer.content) == (503, b"unready\n")
    WorkerFactory()
    answer = client.get("/djqueue/ready/")
    assert (answer.status_code, answer.content) == (200, b"ready\n")
    assert "no-store" in answer["Cache-Control"]
    assert client.head("/djqueue/ready/").status_code == 200
    assert client.post("/djqueue/ready/").status_code == 405


@pytest.mark.databases(*PLAIN)
def test_stats_and_metrics_are_served(database, client):
    JobFactory(queue="mail")
    found = client.get("/djqueue/stats.json").json()
    assert [(row["queue"], row["pending"]) for row in found["queues"]] == [("mail", 1)]
    assert b'djqueue_jobs{queue="mail",state="pending"} 1.0' in client.get("/djqueue/metrics").content


@pytest.mark.databases("sqlite")
def test_metrics_without_the_client_library_say_what_to_install(database, client, monkeypatch):
    monkeypatch.setitem(sys.modules, "djqueue.contrib.prometheus", None)
    monkeypatch.delattr("djqueue.contrib.prometheus")
    answer = client.get("/djqueue/metrics")
    assert answer.status_code == 501
    assert b"pip install 'django-djqueue[prometheus]'" in answer.content


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("probe", PROBES)
def test_without_the_token_or_the_permission_there_is_nothing(database, configure, probe):
    view = getattr(views, probe)
    path = reverse(f"djqueue:{probe}")
    assert Client().get(path).status_code == 404
    configure(HEALTH_TOKEN="s3cret")
    assert Client().get(path).status_code == 404
    assert Client(headers={"Authorization": "Bearer wrong"}).get(path).status_code == 404
    request = RequestFactory().get(path)
    request.user = User(username="boss", is_superuser=True, is_active=True)
    assert view(request).status_code in (200, 503)
    request.user = AnonymousUser()
    with pytest.raises(Http404):
        view(request)
    assert not view.login_required  # for LoginRequiredMiddleware
    assert "default" in view._non_atomic_requests


@pytest.mark.databases("sqlite")
def test_the_urls_are_those_of_the_contract(database):
    paths = [reverse(f"djqueue:{probe}") for probe in PROBES]
    assert paths == ["/djqueue/live/", "/djqueue/ready/", "/djqueue/stats.json", "/djqueue/metrics"]
