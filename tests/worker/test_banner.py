"""What a worker prints when it starts."""

from __future__ import annotations

import pytest
from django.db import connections, transaction

import djqueue
from djqueue.core import registry
from djqueue.management import banner
from djqueue.models import Job, Worker
from djqueue.worker.options import Options
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory
from tests.fill import fill
from tests.sql.test_plans import explain
from tests.tools import eventually, rows, statements_sent
from tests.worker import tasks
from tests.worker.process.test_worker import PLAIN

pytestmark = pytest.mark.databases(*PLAIN)


def notes(*queues: str, exclude: tuple[str, ...] = ()) -> list[str]:
    return list(banner.queue_notes(Options(queues=dict.fromkeys(queues), exclude=exclude)))


def test_a_queue_that_nothing_knows_is_reported_with_the_nearest_name(database, configure):
    configure(QUEUES={"email": {"concurrency": 2}})
    unknown = "no task, setting, schedule or job uses this queue."
    assert notes("emial", "zebra") == [
        f"--queue emial: {unknown} Did you mean 'email'?",
        f"--queue zebra: {unknown}",
    ]
    assert notes(exclude=("emails",)) == [f"--exclude emails: {unknown} Did you mean 'email'?"]


def test_a_queue_of_the_tasks_setting_is_known(database, settings):
    settings.TASKS = {
        "default": {"BACKEND": "djqueue.contrib.django_tasks.DjqueueBackend", "QUEUES": ["reports"]},
        "other": {"BACKEND": "django.core.cache.backends.dummy.DummyCache", "QUEUES": ["exports"]},
    }
    assert notes("reports") == []
    assert notes("exports") != []


def write_schedule() -> None:
    djqueue.schedules.create("s", task=tasks.double, args=[1], every=60, queue="here")


KNOWN_BY = {
    "pending": lambda: tasks.double.using(queue="here").enqueue(1),
    "scheduled": lambda: tasks.double.using(queue="here", delay=60).enqueue(1),
    "claimed": lambda: (tasks.double.using(queue="here").enqueue(1), djqueue.Queue("here").claim()),
    "done": lambda: DoneJobFactory(queue="here"),
    "dead": lambda: DeadJobFactory(queue="here"),
    "paused": lambda: djqueue.Queue("here").pause(),
    "schedule": write_schedule,
}


@pytest.mark.parametrize("how", KNOWN_BY)
def test_a_queue_that_a_row_knows_is_not_reported(database, how):
    assert notes("here") != []
    KNOWN_BY[how]()
    assert notes("here") == []


def test_a_queue_that_a_task_knows_is_not_reported(database):
    assert notes("money", "default") == []


def test_a_queue_whose_jobs_are_all_behind_a_thousand_others_is_not_reported(database):
    """Finding all queues of scheduled jobs would be slow, so a name that was not found is looked up."""
    tasks.double.using(queue="far", delay=9999).enqueue(1)
    many = tasks.double.using(queue="near", delay=60)
    many.enqueue_many([djqueue.call(n) for n in range(1000)])
    assert notes("far", "near") == []


def test_queues_with_jobs_that_are_not_consumed_are_listed(database):
    for queue in ("a", "b", "c"):
        tasks.double.using(queue=queue).enqueue(1)
    tasks.double.using(queue="d", delay=60).enqueue(1)
    text = "Queues with jobs that this worker does not consume: "
    assert notes("a", "c") == [f"{text}b, d"]
    assert notes(exclude=("a",)) == [f"{text}a"]
    assert notes() == []


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("status", ["pending", "scheduled"])
def test_the_statements_read_few_pages_beside_many_jobs(database, status):
    fill("djqueue_job", 100_000, status=f"'{status}'", run_at="now() + interval '1 day'", queue="'q' || mod(n, 3)")
    fill("djqueue_donejob", 100_000, status="'done'", completed_at="now()", queue="'q' || mod(n, 3)")
    with connections[database].cursor() as cursor:
        cursor.execute("VACUUM ANALYZE djqueue_job")  # of rows that other tests have deleted
        cursor.execute("VACUUM ANALYZE djqueue_donejob")
    with statements_sent() as sent:
        assert len(notes("unknown")) == 2
    assert len(sent) <= 10
    pages = [explain(sql.replace("%", "%%"), [])[0] for sql in sent]
    assert max(pages) < 1100, list(zip(pages, sent, strict=True))  # at most the thousand jobs that are read


@pytest.mark.parametrize("processes", ["0", "1"])
def test_the_banner_counts_the_tasks_and_reports_mistakes(database, site, processes):
    JobFactory(queue="elsewhere")
    tasks.double.using(queue="email").enqueue(1)
    worker = site.start("--burst", "--processes", processes, "--queue", "emial")
    assert worker.process.wait(60) == 0
    modules = ("tests.app.tasks", "tests.worker.tasks")
    count = sum(task.func.__module__ in modules for task in registry.all_tasks())
    assert f" tasks={count}" in worker.log()
    assert "--queue emial: no task, setting, schedule or job uses this queue. Did you mean 'email'?" in worker.log()
    assert "Queues with jobs that this worker does not consume: elsewhere, email\n" in worker.log()
    assert "task tests.worker.tasks.double" not in worker.log()
    assert "No tasks are registered" not in worker.log()


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("processes", ["0", "1"])
def test_verbosity_2_lists_the_tasks(database, site, processes):
    worker = site.start("--burst", "--processes", processes, "-v", "2")
    assert worker.process.wait(60) == 0
    assert "\ntask tests.worker.tasks.double queue=default\n" in worker.log()
    assert "\ntask shop.charge queue=money\n" in worker.log()


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_project_without_tasks_is_reported(database, site, processes):
    worker = site.start("--burst", "--processes", processes, env={"DJQUEUE_TEST_WITHOUT_TASKS": "1"})
    assert worker.process.wait(60) == 0
    assert " tasks=0" in worker.log()
    assert "No tasks are registered." in worker.log()
    assert "INSTALLED_APPS" in worker.log()


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_locked_table_does_not_delay_the_start(database, site, processes):
    """The look-up of queues waits for the table; the processes start."""
    with transaction.atomic(using=database), connections[database].cursor() as cursor:
        cursor.execute(f"LOCK TABLE {Job._meta.db_table} IN ACCESS EXCLUSIVE MODE")
        worker = site.start("--processes", processes, "-v", "2", "--queue", "emial")
        worker.wait_for_log("process ready" if processes == "1" else "djqueue worker")
        assert "--queue emial" not in worker.log()
    worker.wait_for_log("--queue emial: no task")
    eventually(lambda: rows(Worker).exists(), 30)  # it runs
    assert worker.stop() == 0
