"""Every page runs a bounded number of queries, all of them on the right database."""

from __future__ import annotations

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from djqueue.admin import search
from tests.factories import (
    DeadJobFactory,
    DoneJobFactory,
    JobFactory,
    KVFactory,
    LimitKeyFactory,
    ScheduleFactory,
    ThroughputFactory,
    WorkerFactory,
    ago,
)

pytestmark = pytest.mark.databases("postgresql", "sqlite", "mysql")

# The maximum number of queries on the queue's database, including those for the filters' choices.
LISTS = {
    "job": ({}, 5),
    "job by state": ({"status": "pending"}, 5),
    "job running": ({"status": "running"}, 5),
    "job by queue": ({"queue": "default"}, 5),
    "job by limit key": ({"limit_key__exact": "tenant:1"}, 5),
    "job by task": ({"task": "tests.app.tasks.add"}, 5),
    "job with errors": ({"errors": "yes"}, 5),
    "job that is late": ({"late": "minute"}, 6),
    "job by name": ({"q": "tasks.add"}, 8),
    "job by error": ({"q": "error:boom"}, 6 + search.WINDOW // search.STEP),
    "job by due time": ({"status": "scheduled", "o": "6"}, 5),
    "job by id": ({"q": "0198c9b4-0000-7000-8000-00000000000a"}, 7),
    "job by argument": ({"q": "a:1"}, 6 + search.WINDOW // search.STEP),
    "deadjob": ({}, 6),
    "deadjob by task": ({"task": "tests.app.tasks.add"}, 6),
    "deadjob of the last day": ({"since": "day"}, 7),
    "deadjob by error": ({"error": "boom"}, 4),
    "deadjob by argument": ({"q": "a:1"}, 5 + search.WINDOW // search.STEP),
    "donejob": ({}, 3),
    "donejob of the last day": ({"since": "day"}, 5),
    "queuestate": ({}, 3),
    "limitkey": ({}, 6),
    "limitkey that is held": ({"state": "held"}, 5),
    "limitkey by key": ({"q": "tenant:1"}, 7),
    "worker": ({}, 2),
    "schedule": ({}, 2),
    "kv": ({}, 2),
}


def fill() -> None:
    for number in range(60):
        JobFactory(queue=f"q{number % 3}", args=[number], errors=[{"a": 1}], run_at=ago(100))
        DeadJobFactory(queue=f"q{number % 3}", args=[number], last_error=f"boom {number}")
        DoneJobFactory(queue=f"q{number % 3}")
        WorkerFactory()
        KVFactory()
        ScheduleFactory()
        LimitKeyFactory(held_until=ago(-60))
        JobFactory(status="blocked", limit_key=f"tenant:{number}")


def test_list_query_counts(boss, database):
    fill()
    for name, (query, most) in LISTS.items():
        model = name.split()[0]
        boss.get(model, **query)
        on_queue, on_default = (CaptureQueriesContext(connections[alias]) for alias in (database, "default"))
        with on_queue as asked, on_default as aside:
            assert boss.get(model, **query).status_code == 200
        statements = "\n".join(one["sql"] for one in asked.captured_queries)
        assert len(asked) <= most, f"{name}: {statements}"
        assert "DISTINCT" not in statements, name
        assert not [one["sql"] for one in aside.captured_queries if "djqueue_" in one["sql"]], name
        assert len(aside) <= 4, name  # session and user


# Of a waiting job, the page also shows why it does not run and when it starts.
PAGES = {
    "job": (lambda: JobFactory(schedule="nightly", worker_ids=["w1", "w2"]), 20),
    "job that is blocked": (lambda: JobFactory(status="blocked", limit_key="tenant:1"), 12),
    "job in a claim": (lambda: JobFactory(claimed=True), 7),
    "deadjob": (DeadJobFactory, 6),
    "donejob": (DoneJobFactory, 6),
    "limitkey": (LimitKeyFactory, 5),
}


@pytest.mark.parametrize("name", PAGES)
def test_job_page_query_counts(boss, database, name):
    make, most = PAGES[name]
    ScheduleFactory(name="nightly")
    ThroughputFactory(done=10, run_sum=1.0)
    for number in range(30):
        for factory in (JobFactory, DoneJobFactory, DeadJobFactory):
            factory(claimed_at=ago(1))
        worker = WorkerFactory()
        JobFactory(claimed=True, worker=worker.identity, task=f"t{number}")
    row = make()
    with CaptureQueriesContext(connections[database]) as asked, CaptureQueriesContext(connections["default"]) as aside:
        assert boss.page(name.split()[0], row.pk).status_code == 200
    assert len(asked) <= most, "\n".join(one["sql"] for one in asked.captured_queries)
    assert not [one["sql"] for one in aside.captured_queries if "djqueue_" in one["sql"]]


def test_action_on_many_rows_runs_queries_per_batch(boss, database):
    for _ in range(60):
        DeadJobFactory()
    boss.get("deadjob")
    with CaptureQueriesContext(connections[database]) as asked, CaptureQueriesContext(connections["default"]) as aside:
        boss.do("deadjob", "requeue")
    assert len(asked) < 25
    assert not [one["sql"] for one in aside.captured_queries if "djqueue_" in one["sql"]]
    assert len(aside) < 25


def test_log_entry_is_written_after_the_action(boss, database):
    """The log never contains an action that did not happen."""
    job = DeadJobFactory()
    order = []

    def note(alias):
        def wrapper(execute, sql, params, many, context):
            order.append(f"{alias} {sql.split()[0]}")
            return execute(sql, params, many, context)

        return wrapper

    with connections[database].execute_wrapper(note("queue")), connections["default"].execute_wrapper(note("log")):
        boss.do("deadjob", "delete", job.pk, follow=False)
    assert order.index("log INSERT") > order.index("queue DELETE")
