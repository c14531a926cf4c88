"""A claim and a settlement read only the rows that they change, whatever else is in the table."""

from __future__ import annotations

import json
import re

import pytest
from django.db import connections, transaction

import djqueue
from djqueue.core.uuid7 import uuid7
from djqueue.lifecycle import claim as claiming
from djqueue.lifecycle import settle
from djqueue.lifecycle.outcome import decide
from djqueue.models import DoneJob, Job, QueueState
from djqueue.sql import statements
from djqueue.sql.postgresql import arrays, claim
from djqueue.sql.postgresql import settle as pg_settle
from tests.app.tasks import add
from tests.factories import JobFactory, ago
from tests.fill import fill
from tests.tools import claim_one, claim_request, rows, statements_sent

MANY = 200_000


FILLINGS = {
    "pending": lambda: fill("djqueue_job", MANY, status="'pending'"),
    "future": lambda: fill("djqueue_job", MANY, status="'scheduled'", run_at="now() + interval '1 day'"),
    "blocked": lambda: fill("djqueue_job", MANY, status="'blocked'", limit_key="'one'"),
    "done": lambda: fill("djqueue_donejob", MANY, status="'done'", completed_at="now()"),
    "100 queues": lambda: fill("djqueue_job", MANY, status="'pending'", queue="'q' || mod(n, 100)"),
    "paused": lambda: (
        fill("djqueue_job", MANY, status="'pending'", queue="'paused'", priority="1"),
        djqueue.Queue("paused").pause(),
    ),
}


def explain(sql: str, params: list[object]) -> tuple[int, str]:
    """Pages touched, and the plan as text."""
    with connections["postgresql"].cursor() as cursor, transaction.atomic(using="postgresql"):
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", params)
        [[answer]] = cursor.fetchall()
        transaction.set_rollback(True, using="postgresql")
    plan = answer[0]["Plan"] if not isinstance(answer, str) else json.loads(answer)[0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], json.dumps(plan)


def explain_claim(queues: list[str]) -> tuple[int, str]:
    limit = max(10 // len(queues), 1)
    request = claim_request(dict.fromkeys(queues, limit), limit=10)
    return explain(claim.CLAIM, claim.parameters(request))


def explain_settle() -> tuple[int, str]:
    items = [decide(settle.ack(job)) for job in djqueue.Queue("default").claim(10)]
    varying, params = arrays.columns_of(items, pg_settle.SETTLE_COLUMNS)
    return explain(pg_settle.settle_sql(reaping=False, wait=False, notify=True, varying=varying), params)


def test_limits_do_not_change_the_claim():
    """Blocked jobs are in no index that a claim reads; all that a claim does with a key is to return it."""
    assert "blocked" not in claim.CLAIM
    assert "limitkey" not in claim.CLAIM
    assert [line.strip() for line in claim.CLAIM.splitlines() if "limit_key" in line] == [f"RETURNING {claim.RETURNED}"]


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("fresh", [True, False], ids=["fresh statistics", "stale statistics"])
@pytest.mark.parametrize("filling", FILLINGS)
def test_pages_touched_do_not_grow_with_the_table(database, filling, fresh):
    def run_sql(*sqls: str) -> None:
        with connections[database].cursor() as cursor:
            for sql in sqls:
                cursor.execute(sql)

    tables = "djqueue_job, djqueue_donejob, djqueue_queuestate, djqueue_throughput"
    run_sql(
        f"TRUNCATE {tables}",
        "ALTER TABLE djqueue_job SET (autovacuum_enabled = false)",
        "ALTER TABLE djqueue_donejob SET (autovacuum_enabled = false)",
        f"ANALYZE {tables}",
    )
    try:
        for n in range(20):
            add.using(priority=2000).enqueue(n)
        queues = ["default"]
        few_pages, _ = explain_claim(queues)
        few_settle_pages, _ = explain_settle()
        FILLINGS[filling]()
        for n in range(20):
            add.using(priority=0).enqueue(n)
        if filling == "100 queues":
            queues = [f"q{n}" for n in range(100)]
        elif filling == "paused":
            queues = ["default", "paused"]
        if fresh:
            run_sql(f"ANALYZE {tables}")
        pages, plan = explain_claim(queues)
        if filling != "done":  # forty live jobs fit on a page, and that is what is read
            assert "djqueue_job_claim" in plan
        # Three or four pages lead down an index of this size; ten jobs are read there and written once.
        assert pages <= few_pages + 12 * len(queues) + 100, plan
        settle_pages, settle_plan = explain_settle()
        if filling != "done":
            assert "djqueue_job_pkey" in settle_plan
        assert settle_pages <= few_settle_pages + 300, settle_plan
    finally:
        run_sql(
            f"TRUNCATE {tables}",
            "ALTER TABLE djqueue_job RESET (autovacuum_enabled)",
            "ALTER TABLE djqueue_donejob RESET (autovacuum_enabled)",
            f"ANALYZE {tables}",
        )


def many_rows(queue: str, count: int, **fields: object) -> None:
    """Rows beside the ones that matter, on any database."""
    made = [
        JobFactory.build(id=uuid7(), queue=queue, run_at=ago(-1000) if "status" in fields else ago(1), **fields)
        for _ in range(count)
    ]
    rows(Job).bulk_create(made, batch_size=500)


@pytest.mark.databases("mysql")
def test_mariadb_has_the_indexes_that_django_would_have_left_out(database):
    with connections[database].cursor() as cursor:
        cursor.execute(
            "SELECT index_name, GROUP_CONCAT(column_name ORDER BY seq_in_index), MAX(non_unique) "
            "FROM information_schema.statistics "
            "WHERE table_schema = DATABASE() AND table_name = 'djqueue_job' GROUP BY index_name"
        )
        found = {name: (columns, bool(plain)) for name, columns, plain in cursor.fetchall()}
    assert found == {
        "PRIMARY": ("id", False),
        "djqueue_job_claim": ("status,queue,priority,enqueued_at,id", True),
        "djqueue_job_due": ("status,run_at,id", True),
        "djqueue_job_claimed": ("status,id", True),
        "djqueue_job_blocked": ("status,limit_key,priority,enqueued_at,id", True),
        "djqueue_job_dedup": ("queue,dedup_key", False),
        "djqueue_job_slot": ("schedule,slot", False),
    }


@pytest.mark.databases("mysql")
def test_mariadb_reads_only_what_it_claims_and_settles(database):
    many_rows("default", 5000, priority=2000)
    many_rows("paused", 5000)
    many_rows("default", 5000, status="scheduled")
    djqueue.Queue("paused").pause()
    for n in range(10):
        add.enqueue(n)

    def rows_read(work) -> tuple[object, int]:
        with connections[database].cursor() as cursor:
            cursor.execute("FLUSH STATUS")
            result = work()
            cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
            return result, sum(int(value) for _, value in cursor.fetchall())

    jobs, read = rows_read(lambda: claiming.claim({"default": 10, "paused": 10}))
    assert len(jobs) == 10
    assert read < 200
    _, read = rows_read(lambda: settle.settle_many([settle.ack(job) for job in jobs]))
    assert read < 200
    promoted, read = rows_read(lambda: djqueue.maintenance.promote())
    assert promoted == 0
    assert read < 20


@pytest.mark.databases("mysql")
def test_mariadb_claims_along_the_claim_index_without_sorting(database):
    many_rows("default", 2000)
    with statements_sent() as sent:
        claim_one()
    [select] = [sql for sql in sent if "SKIP LOCKED" in sql]
    with connections[database].cursor() as cursor:
        cursor.execute(f"EXPLAIN {select}")
        columns = [column[0] for column in cursor.description]
        plan = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
    [job] = [row for row in plan if row["table"] == "djqueue_job"]
    assert job["key"] == "djqueue_job_claim"
    assert "filesort" not in (job["Extra"] or "")


@pytest.mark.databases("sqlite")
def test_sqlite_claims_along_the_claim_index_without_sorting(database):
    for n in range(5):
        add.enqueue(n)
    with statements_sent() as sent:
        djqueue.Queue("default").claim(2)
    [update] = sent
    with connections[database].cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {update}")
        plan = "\n".join(row[3] for row in cursor.fetchall())
    assert "SEARCH djqueue_job USING INDEX djqueue_job_claim (queue=?)" in plan, plan
    assert not re.search(r"SCAN djqueue_job\b", plan), plan


@pytest.mark.databases("postgresql")
def test_a_renewal_stays_on_its_page(database):
    """The lease column is in no index, so PostgreSQL can renew in place (a HOT update)."""
    for n in range(10):
        add.enqueue(n)
    jobs = djqueue.Queue("default").claim(10)

    def hot_updates() -> tuple[int, int]:
        with connections[database].cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute("SELECT n_tup_hot_upd, n_tup_upd FROM pg_stat_user_tables WHERE relname = 'djqueue_job'")
            return cursor.fetchone()

    hot, updates = hot_updates()
    for job in jobs:
        job.renew(60)
    after_hot, after_updates = hot_updates()
    assert after_updates - updates == 10
    assert after_hot - hot == 10


@pytest.mark.databases("postgresql")
def test_the_reaper_and_the_promoter_have_their_indexes(database):
    fill("djqueue_job", 20_000, status="'scheduled'", run_at="now() + interval '1 day'")
    with connections[database].cursor() as cursor:
        cursor.execute("ANALYZE djqueue_job")
    pages, plan = explain(f"{claim.PROMOTE} RETURNING j.queue", [100])
    assert "djqueue_job_due" in plan
    assert pages < 20
    with statements_sent() as sent:
        djqueue.maintenance.reap()
    [select] = [sql for sql in sent if "lease_expires_at" in sql]
    pages, plan = explain(select.replace("%", "%%"), [])
    assert "djqueue_job_claimed" in plan
    assert pages < 20


@pytest.mark.databases("postgresql")
def test_finding_the_queues_hops_along_the_index(database):
    fill("djqueue_donejob", 20_000, status="'done'", completed_at="now()", queue="'q' || mod(n, 3)")
    assert rows(DoneJob).count() == 20_000
    with statements_sent() as sent:
        assert statements().queues_in("djqueue_donejob") == ["q0", "q1", "q2"]
    pages, _ = explain(sent[0], [])
    assert pages < 60
    assert not rows(QueueState).exists()


def test_all_of_many_queues_are_found_except_the_paused(database):
    many = [JobFactory.build(id=uuid7(), queue=f"q{n:04}") for n in range(1200)]
    rows(Job).bulk_create(many, batch_size=500)
    queues = sorted(job.queue for job in many)
    djqueue.Queue("q0007").pause()
    with statements_sent() as sent:
        found = statements().claimable_queues()
    assert sorted(found) == [queue for queue in queues if queue != "q0007"]
    assert len(sent) == 1
    assert sorted(statements().queues_in("djqueue_job", "status = 'pending'")) == queues


def explained(database: str, sql: str) -> dict[str, dict[str, str]]:
    """MariaDB's plan, by table."""
    with connections[database].cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}")
        columns = [column[0] for column in cursor.description]
        return {row[columns.index("table")]: dict(zip(columns, row, strict=True)) for row in cursor.fetchall()}


@pytest.mark.databases("mysql")
def test_mariadb_finds_the_queues_with_one_index_read_per_queue(database):
    for n in range(3):
        many_rows(f"q{n}", 2000)
    with connections[database].cursor() as cursor:
        cursor.execute("ANALYZE TABLE djqueue_job")
        cursor.fetchall()
    with statements_sent() as sent:
        assert statements().claimable_queues() == ["q0", "q1", "q2"]
    assert "Using index for group-by" in explained(database, sent[0])["djqueue_job"]["Extra"]


@pytest.mark.databases("mysql")
def test_mariadb_moves_rows_by_their_primary_keys(database):
    many_rows("default", 2000)
    jobs = djqueue.Queue("default").claim(20)
    items = [settle.ack(job, {"n": n}) for n, job in enumerate(jobs[:10])]
    items += [settle.dead_letter(job, "boom") for job in jobs[10:]]
    with statements_sent() as sent:
        settle.settle_many(items)
    moves = [sql for sql in sent if sql.startswith("REPLACE INTO")]
    assert len(moves) == 2
    for sql in moves:
        plan = explained(database, sql)
        assert (plan["j"]["type"], plan["j"]["key"]) == ("eq_ref", "PRIMARY")


@pytest.mark.databases("sqlite")
def test_sqlite_moves_rows_by_their_primary_keys(database):
    many_rows("default", 100)
    items = [settle.ack(job, {"n": n}) for n, job in enumerate(djqueue.Queue("default").claim(20))]
    with statements_sent() as sent:
        settle.settle_many(items)
    [move] = [sql for sql in sent if sql.startswith("REPLACE INTO")]
    with connections[database].cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {move}")
        plan = "\n".join(row[3] for row in cursor.fetchall())
    assert "SEARCH j USING INDEX" in plan, plan
    assert "(id=?)" in plan, plan


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("fresh", [True, False], ids=["fresh statistics", "stale statistics"])
def test_the_scheduled_jobs_of_one_queue_are_found_among_many(database, fresh):
    """By the queries of the admin's list and of stats()."""
    fill("djqueue_job", MANY, status="'scheduled'", queue="'other'", run_at="now() + interval '1 day'")
    if fresh:
        with connections[database].cursor() as cursor:
            cursor.execute("ANALYZE djqueue_job")
    jobs = [add.using(queue="rare", delay=60).enqueue(n) for n in range(5)]
    where = "FROM djqueue_job WHERE status = 'scheduled' AND queue = 'rare'"
    for sql in (f"SELECT id {where} ORDER BY id DESC LIMIT 10001", f"SELECT COUNT(*) {where}"):
        pages, plan = explain(sql, [])
        assert "djqueue_job_scheduled" in plan
        assert pages < 50, plan
    assert djqueue.stats("rare").scheduled == len(jobs)
