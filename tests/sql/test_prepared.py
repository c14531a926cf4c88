"""The statement of a single enqueue is planned once per connection, where that can break nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import psycopg
import pytest
from django.db import connections, transaction

from djqueue.models import Job
from djqueue.sql.postgresql import rushes, statements
from tests.app.tasks import add
from tests.tools import in_thread, rows, statements_sent

PREPARED = "SELECT statement FROM pg_prepared_statements WHERE statement LIKE '%INSERT INTO djqueue_job%'"
BEHIND_POOLER = 8  # transactions that the pooler spreads over all of its servers


@pytest.fixture(autouse=True)
def quick_inserts(monkeypatch) -> None:
    """However busy or fast the machine is: in a rush, another statement is sent."""
    monkeypatch.setattr(statements, "SLOW_INSERT", float("inf"))
    monkeypatch.setattr(rushes, "FAST", 0)


def ask(database: str, sql: str) -> list[Any]:
    with connections[database].cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []


def prepared(database: str) -> int:
    return len(ask(database, PREPARED))


@pytest.mark.databases("postgresql", "postgresql_pool", "postgresql_bound")
def test_enqueues_on_one_connection_share_a_plan(database):
    def enqueue() -> None:
        for number in range(4):
            add.enqueue(number)
        assert prepared(database) == 1
        assert connections[database].connection.prepare_threshold is None, "other statements are not prepared"

    in_thread(enqueue)
    assert sorted(job.args[0] for job in rows(Job).all()) == [0, 1, 2, 3]


@pytest.mark.databases("postgresql", "postgresql_bound")
def test_logged_queries_have_their_text(database):
    def enqueue() -> None:
        add.enqueue(0)
        add.enqueue(1)
        with statements_sent() as sent:
            add.enqueue(2)
        assert ["INSERT INTO djqueue_job" in sql for sql in sent] == [True]

    in_thread(enqueue)


@pytest.mark.databases("postgresql")
def test_values_of_every_size_are_stored(database):
    def enqueue() -> None:
        for priority in (-(10**12), -5, 0, 7, 10**6, 10**12):
            add.using(priority=priority, headers={"n": priority}, timeout=1.5).enqueue(priority)

    in_thread(enqueue)
    for job in rows(Job).all():
        assert job.args == [job.priority]
        assert job.headers == {"n": job.priority}
        assert job.timeout == 1.5


@pytest.mark.databases("postgresql")
def test_nothing_is_prepared_in_a_transaction(database):
    """There, a statement that the server does not know any more would end the caller's transaction."""

    def enqueue() -> None:
        add.enqueue(0)
        with transaction.atomic(using=database):
            for number in range(3):
                add.enqueue(number)
        assert prepared(database) == 0
        add.enqueue(0)
        assert prepared(database) == 1
        ask(database, "DEALLOCATE ALL")
        with transaction.atomic(using=database):
            assert add.enqueue(1).created

    in_thread(enqueue)
    assert rows(Job).count() == 6


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("lose", ["DEALLOCATE ALL", "DISCARD ALL"])
def test_a_statement_that_was_deallocated_is_sent_as_it_is(database, lose):
    def enqueue() -> None:
        for number in range(3):
            add.enqueue(number)
        assert prepared(database) == 1
        ask(database, lose)
        for number in range(3, 6):
            assert add.enqueue(number).created
        assert prepared(database) == 0, "one that loses statements is not used again"

    in_thread(enqueue)
    assert sorted(job.args[0] for job in rows(Job).all()) == list(range(6))


@pytest.mark.databases("postgresql")
def test_a_name_that_another_client_of_a_pooler_has_used_is_not_used(database):
    def enqueue() -> None:
        add.enqueue(0)
        ask(database, "PREPARE _pg3_0 AS SELECT 1")  # the first name that the driver uses
        assert add.enqueue(1).created
        assert prepared(database) == 0

    in_thread(enqueue)
    assert rows(Job).count() == 2


@pytest.mark.databases("postgresql_pgbouncer")
def test_nothing_is_prepared_behind_a_pooler(database):
    def enqueue() -> None:
        for number in range(BEHIND_POOLER):
            add.enqueue(number)
        assert [prepared(database) for _ in range(BEHIND_POOLER)] == [0] * BEHIND_POOLER

    in_thread(enqueue)
    assert rows(Job).count() == BEHIND_POOLER


@contextmanager
def options(database: str, **more: Any) -> Iterator[None]:
    """Connect with further options."""
    usual = connections[database]
    settings = deepcopy(usual.settings_dict)
    settings["OPTIONS"] |= more
    connections[database] = type(usual)(settings, database)
    try:
        yield
    finally:
        connections[database].close()
        connections[database] = usual


@pytest.mark.databases("postgresql")
def test_a_project_that_has_chosen_when_to_prepare_keeps_its_choice(database):
    def enqueue() -> None:
        with options(database, prepare_threshold=100, server_side_binding=True):
            for number in range(3):
                add.enqueue(number)
            assert prepared(database) == 0

    in_thread(enqueue)


@pytest.mark.databases("postgresql")
def test_a_cursor_that_traces_statements_sees_every_enqueue(database):
    seen = []

    class Tracing(psycopg.ClientCursor[Any]):
        def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append(query)
            return super().execute(query, *args, **kwargs)

    def enqueue() -> None:
        with options(database, cursor_factory=Tracing):
            for number in range(3):
                add.enqueue(number)

    in_thread(enqueue)
    assert sum("INSERT INTO djqueue_job" in sql for sql in seen) == 3
