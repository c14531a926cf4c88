"""Rollback in every nesting: no job, no signal, no wake-up."""

from __future__ import annotations

from functools import partial

import pytest
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import path

from djqueue import call
from djqueue.conf import config
from djqueue.models import Job
from tests.app.tasks import add
from tests.test_signals import heard  # noqa: F401 - a fixture
from tests.tools import in_thread, notifications, rows


def view(request: HttpRequest) -> HttpResponse:
    add.enqueue(1)
    add.enqueue_many([call(2), call(3)])
    add.using(on_commit=True).enqueue(4)
    transaction.on_commit(partial(add.enqueue, 5), using=config().database)
    if "fail" in request.GET:
        raise RuntimeError("the view failed")
    if "unsaved" in request.GET:
        transaction.set_rollback(True, using=config().database)
    return HttpResponse("ok")


urlpatterns = [path("order/", view)]


@pytest.fixture
def client(database: str):
    """A site with ATOMIC_REQUESTS on the queue's database."""
    connections[database].settings_dict["ATOMIC_REQUESTS"] = True
    with override_settings(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["testserver"]):
        yield Client(raise_request_exception=False)
    connections[database].settings_dict["ATOMIC_REQUESTS"] = False


def test_a_request_that_succeeds_commits_its_jobs(database, client, heard):  # noqa: F811
    assert client.get("/order/").status_code == 200
    assert sorted(job.args[0] for job in rows(Job).all()) == [1, 2, 3, 4, 5]
    assert heard.names == ["queued"] * 5


@pytest.mark.parametrize("how", ["fail", "unsaved"])
def test_a_request_that_fails_leaves_nothing(database, client, heard, how):  # noqa: F811
    client.get(f"/order/?{how}=1")
    assert not rows(Job).exists()
    assert heard.names == []


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_every_nesting_of_atomic(database, heard, depth, failing, durable):  # noqa: F811
    """The job of level n stays unless that level, or one around it, rolls back."""

    def nest(level: int) -> None:
        with transaction.atomic(using=database, durable=durable and level == 1):
            add.enqueue(level)
            if level < depth:
                try:
                    nest(level + 1)
                except RuntimeError:
                    if failing <= level:
                        raise
            if level == failing:
                raise RuntimeError

    if failing == 1:
        with pytest.raises(RuntimeError):
            nest(1)
    else:
        nest(1)
    expected = list(range(1, min(depth, failing - 1) + 1))
    assert sorted(job.args[0] for job in rows(Job).all()) == expected
    assert sorted(kwargs["job"].args[0] for _, kwargs in heard) == expected


def test_atomic_without_savepoints(database, heard):  # noqa: F811
    with pytest.raises(RuntimeError), transaction.atomic(using=database):
        add.enqueue(1)
        with transaction.atomic(using=database, savepoint=False):
            add.enqueue(2)
            raise RuntimeError
    assert not rows(Job).exists()
    assert heard.names == []


def test_a_transaction_on_another_alias_does_not_affect_jobs(database, heard):  # noqa: F811
    with pytest.raises(RuntimeError), transaction.atomic(using="default"):
        add.enqueue(1)
        add.using(on_commit="default").enqueue(2)
        assert heard.names == ["queued"]
        raise RuntimeError
    assert [job.args for job in rows(Job).all()] == [[1]]


def test_two_aliases_commit_independently(database, heard):  # noqa: F811
    with transaction.atomic(using=database):
        add.enqueue(1)
        with pytest.raises(RuntimeError), transaction.atomic(using="default"):
            add.enqueue(2)
            raise RuntimeError
    assert len(heard) == rows(Job).count() == 2


@pytest.mark.databases("postgresql", "postgresql_bound", "postgresql_pgbouncer")
def test_no_wake_up_after_a_rollback(database):
    listening = connections["postgresql_repeatable"]
    with listening.cursor() as cursor:
        for channel in ("djqueue_pending", "djqueue_scheduled", "djqueue_ended"):
            cursor.execute(f"LISTEN {channel}")
    try:

        def enqueue(commit: bool) -> None:
            with transaction.atomic(using=database):
                add.enqueue(1)
                add.using(delay=60).enqueue(1)
                add.enqueue_many([call(2)])
                transaction.set_rollback(not commit, using=database)

        in_thread(enqueue, False)
        assert notifications(listening) == []
        in_thread(enqueue, True)
        # One for each queue and kind, however many jobs.
        assert notifications(listening) == ["djqueue_pending:default", "djqueue_scheduled:"]
    finally:
        listening.close()
