"""Topics: one job for every task that subscribes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from io import StringIO

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.core.management import CommandError, call_command
from django.db import transaction

import djqueue
from djqueue.core import registry
from djqueue.models import Job
from tests.tools import live, rows, statements_sent

CREATED = "order.created"
NAMES = ["topics.invoice", "topics.mail", "topics.stock"]


@pytest.fixture(autouse=True)
def subscribers(monkeypatch):
    """Three tasks with topics, declared in another order than that of their names."""
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))

    @djqueue.task(name="topics.stock", topics=[CREATED, "order.cancelled", CREATED])
    def stock(order: int, **details: object) -> None: ...

    @djqueue.task(name="topics.mail", topics=[CREATED], queue="email", max_attempts=9, priority=5)
    def mail(order: int, total: str = "") -> None: ...

    @djqueue.task(name="topics.invoice", topics=(CREATED,))
    async def invoice(order: int, *, total: str, topic: str = "") -> None: ...


def test_publish_creates_one_job_per_subscriber_with_its_own_options(database):
    with statements_sent() as sent:
        handles = djqueue.publish(CREATED, 42, total="9.90")
    assert len([sql for sql in sent if sql.upper().startswith(("INSERT", "WITH"))]) == 1
    assert len(sent) == 1 or database == "mysql", sent
    jobs = [live(handle.id) for handle in handles]
    assert [job.task for job in jobs] == NAMES
    assert [(job.queue, job.max_attempts, job.priority) for job in jobs] == [
        ("default", 3, 1000),
        ("email", 9, 5),
        ("default", 3, 1000),
    ]
    assert {(tuple(job.args), *job.kwargs.items()) for job in jobs} == {((42,), ("total", "9.90"))}


def test_publish_belongs_to_the_callers_transaction(database):
    with transaction.atomic(using=database):
        assert len(djqueue.publish(CREATED, 42, total="9.90")) == 3
        transaction.set_rollback(True, using=database)
    assert rows(Job).count() == 0


@pytest.mark.databases("sqlite")
def test_a_topic_without_subscribers_is_no_error(database):
    with statements_sent() as sent:
        assert djqueue.publish("order.shipped", 42) == []
    assert sent == []


@pytest.mark.databases("sqlite")
def test_arguments_are_checked_for_every_subscriber_before_anything_is_written(database):
    with statements_sent() as sent, pytest.raises(djqueue.InvalidArguments) as raised:
        djqueue.publish(CREATED, 42, total="9.90", topic="also an argument")
    assert str(raised.value).startswith("Topic 'order.created': Invalid arguments for topics.mail(order, total=...)")
    assert sent == []
    assert len(djqueue.publish("order.cancelled", 42, topic="an argument", self=1)) == 1


@pytest.mark.databases("sqlite")
def test_an_argument_that_cannot_be_stored_is_named_with_its_topic(database):
    with pytest.raises(
        djqueue.InvalidPayload, match=r"^Topic 'order.created': topics.invoice: args\[0\] \(order\) is of"
    ):
        djqueue.publish(CREATED, object(), total="9.90")


@pytest.mark.databases("sqlite")
def test_published_jobs_have_headers_of_their_own(configure):
    configure(HEADERS=["tests.hooks.request_id"])
    handles = djqueue.publish(CREATED, 42, total="9.90")
    assert [handle.job().headers["task"] for handle in handles] == NAMES


@pytest.mark.databases("sqlite")
def test_publish_in_async_code(database):
    handles = asyncio.run(djqueue.apublish(CREATED, 42, total="9.90"))
    assert [handle.job().task for handle in handles] == NAMES

    async def wrong() -> None:
        djqueue.publish(CREATED, 42, total="9.90")

    with pytest.raises(SynchronousOnlyOperation, match=r"Use await djqueue.apublish\(...\)"):
        asyncio.run(wrong())


@pytest.mark.parametrize("topic", ["", None, 5, "a\nb", "x" * 256])
def test_a_bad_topic_is_refused(topic):
    with pytest.raises(djqueue.InvalidOption, match="topic"):
        djqueue.publish(topic, 42)
    with pytest.raises(djqueue.InvalidOption, match="topic"):
        djqueue.task(topics=[topic])


def test_topics_must_be_a_list():
    with pytest.raises(djqueue.InvalidOption, match=r'topics must be a list such as \["order.created"\], got \'order'):
        djqueue.task(topics=CREATED)


def listed(*arguments: str) -> str:
    call_command("djqueue", "topics", *arguments, stdout=(out := StringIO()))
    return out.getvalue()


def test_the_command_lists_topics_in_aligned_columns():
    assert listed() == (
        "TOPIC            TASK            QUEUE\n"
        "order.cancelled  topics.stock    default\n"
        "order.created    topics.invoice  default\n"
        "order.created    topics.mail     email\n"
        "order.created    topics.stock    default\n"
    )


def test_long_names_are_cut_to_the_width_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    long = f"{'very.' * 30}long_name"
    djqueue.task(name=long, topics=["t" * 200])(lambda: None)
    lines = listed().splitlines()
    assert max(map(len, lines)) == 80
    assert lines[-1].startswith("…ttt")
    assert "long_name  default" in lines[-1]
    assert json.loads(listed("--json"))["topics"][-1]["tasks"][0]["task"] == long


def test_the_command_prints_json():
    topics = json.loads(listed("--json"))["topics"]
    assert topics[0] == {"topic": "order.cancelled", "tasks": [{"task": "topics.stock", "queue": "default"}]}
    assert [task["task"] for task in topics[1]["tasks"]] == NAMES


def test_without_topics_the_command_says_so(monkeypatch):
    monkeypatch.setattr(registry, "_tasks", {})
    assert listed().startswith("No task has a topic.")
    assert json.loads(listed("--json")) == {"topics": []}


def test_without_a_subcommand_the_command_fails():
    with pytest.raises(CommandError, match="SUBCOMMAND"):
        call_command("djqueue")
    for arguments in ([], ["nonsense"], ["topics", "--nonsense"]):
        done = subprocess.run(
            [sys.executable, "manage.py", "djqueue", *arguments], capture_output=True, text=True, check=False
        )
        assert (done.returncode, "usage: manage.py djqueue" in done.stderr) == (2, True), done.stderr


PROCESS = """
import django
from django.conf import settings
settings.configure(
    USE_TZ=True, INSTALLED_APPS=["djqueue", "tests.published"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
django.setup()
from django.core.management import call_command
import sys, djqueue
call_command("migrate", verbosity=0)
assert "tests.published.tasks" not in sys.modules
print([handle.job().task for handle in djqueue.publish("published", 1)])
"""


def test_subscribers_are_found_in_a_process_that_has_imported_no_tasks():
    done = subprocess.run([sys.executable, "-c", PROCESS], capture_output=True, text=True, check=True)
    assert done.stdout == "['tests.published.tasks.subscriber']\n"
