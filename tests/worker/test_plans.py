"""A worker keeps the plans of its statements, also when the tables were empty when these were made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import connections, transaction

import djqueue
from djqueue.lifecycle import claim, crash, settle
from djqueue.sql import statements
from djqueue.worker import plans
from tests import pgbouncer
from tests.app.tasks import add
from tests.fill import fill
from tests.sql.test_statistics import TABLES, counters, run

pytestmark = pytest.mark.databases("postgresql")

GROUP = 200
MANY = 20_000


@pytest.fixture
def thread() -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Call functions in a thread of a worker, whose connection is its own."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda work: pool.submit(work).result()
        pool.submit(connections.close_all).result()


def work(count: int) -> int:
    jobs = claim.claim({"default": count}, begin=count)
    assert statements().ack([settle.ack(job) for job in jobs])
    return len(jobs)


def prepared(column: str = "count(*)") -> Any:
    with connections["postgresql"].cursor() as cursor:
        cursor.execute(f"SELECT {column} FROM pg_prepared_statements WHERE statement LIKE '%%djqueue_job%%'")
        return cursor.fetchone()[0]


@pytest.fixture
def without_autovacuum() -> Iterator[None]:
    run(*(f"ALTER TABLE {table} SET (autovacuum_enabled = false)" for table in TABLES))
    yield
    run(*(f"ALTER TABLE {table} RESET (autovacuum_enabled)" for table in TABLES))


def test_plans_that_were_made_for_empty_tables_are_good_for_full_ones(database, without_autovacuum, thread):
    run(f"VACUUM (ANALYZE) {', '.join(TABLES)}")
    thread(plans.keep_plans)
    for _ in range(10):
        add.enqueue(1, 2)
        assert thread(lambda: work(1)) == 1
    assert thread(lambda: prepared("sum(generic_plans)")) > 0
    assert thread(lambda: prepared("sum(custom_plans)")) == 0  # nothing is planned again
    fill("djqueue_job", MANY, status="'pending'", task="'tests.app.tasks.add'")
    fill("djqueue_job", MANY, status="'claimed'", token="gen_random_uuid()", lease_expires_at="now()")
    fill("djqueue_donejob", MANY, status="'done'", completed_at="now()")

    def measure() -> tuple[int, list[int]]:
        with transaction.atomic(using=database):
            before = counters(database)
            done = work(GROUP)
            return done, [now - then for now, then in zip(counters(database), before, strict=True)]

    done, (scans, table_rows, entries, pages) = thread(measure)
    found = f"{scans=} {table_rows=} {entries=} {pages=}"
    assert done == GROUP
    assert scans == 0, found
    assert table_rows <= 8 * GROUP, found
    assert entries <= 12 * GROUP, found


def test_lost_claims_are_found_by_an_index(database, without_autovacuum, thread):
    """The claimer looks for them after an outage, on the connection that keeps its plans."""
    thread(plans.keep_plans)
    fill("djqueue_job", MANY, status="'pending'", task="'tests.app.tasks.add'")

    def measure() -> list[int]:
        with transaction.atomic(using=database):
            before = counters(database)
            crash.release_claims([uuid4()])
            return [now - then for now, then in zip(counters(database), before, strict=True)]

    scans, table_rows, *_ = thread(measure)
    assert (scans, table_rows) == (0, 0)


def test_cursors_that_bind_in_the_client_are_kept(database, thread):
    def use() -> int:
        connection = connections[database]
        settings = deepcopy(connection.settings_dict)
        settings["OPTIONS"]["cursor_factory"] = psycopg.ClientCursor
        connection.close()
        connections[database] = type(connection)(settings, database)
        plans.keep_plans()
        return work(1)

    add.enqueue(1, 2)
    assert thread(use) == 1


def test_a_setting_of_the_project_is_kept(database, thread, settings):
    def use() -> int:
        options = connections[database].settings_dict["OPTIONS"]
        options["prepare_threshold"] = None
        try:
            plans.keep_plans()
            work(1)
            return prepared()
        finally:
            del options["prepare_threshold"]

    add.enqueue(1, 2)
    assert thread(use) == 0


def test_the_connections_of_other_threads_do_not_prepare(database, thread):
    """Except for the INSERT of an enqueue."""
    thread(plans.keep_plans)
    add.enqueue(1, 2)
    assert work(1) == 1
    assert prepared("count(*) FILTER (WHERE statement NOT LIKE '%%INSERT INTO djqueue_job %%')") == 0
    add.enqueue(1, 2)
    assert thread(lambda: work(1)) == 1
    assert thread(prepared) > 0


def test_a_connection_that_is_made_again_prepares_again(database, thread):
    thread(plans.keep_plans)
    for _ in range(2):
        add.enqueue(1, 2)
        assert thread(lambda: work(1)) == 1
        assert thread(prepared) > 0
        thread(lambda: connections[database].close())
    assert djqueue.stats("default").done == 2


@pytest.mark.skipif(pgbouncer.PROGRAM is None, reason="install pgbouncer, for example with apt-get install pgbouncer")
def test_behind_a_pooler_nothing_is_prepared(database, thread):
    def use(pooled: dict[str, Any]) -> int:
        connection = connections[database]
        connection.close()
        connections[database] = type(connection)(pooled, database)
        plans.keep_plans()
        return sum(work(1) for _ in range(20))

    add.enqueue_many([djqueue.call(n, 1) for n in range(20)])
    with pgbouncer.pgbouncer(database) as pooled:
        assert thread(lambda: use(pooled)) == 20
        assert thread(prepared) == 0
