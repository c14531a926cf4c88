"""Every statement reads only what it works on, whatever statistics the planner has of the tables.

The job table of a queue is normally analysed while it is empty, and full a moment later: PostgreSQL then believes that
it has no rows, and prefers to read it from end to end for each join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from uuid import UUID

import pytest
from django.db import connections, transaction

from djqueue.core.records import Admit, Decision, Mark, NewJob, Renew, Requeue, Settlement
from djqueue.core.uuid7 import uuid7
from djqueue.lifecycle.outcome import decide
from djqueue.sql import limits, statements
from djqueue.states import Verdict
from tests.fill import fill
from tests.tools import claim_request

GROUP = 200
FEW = 20  # where an index wins over a table of ten thousand rows
TABLES = ("djqueue_job", "djqueue_donejob", "djqueue_deadjob", "djqueue_throughput", "djqueue_queuestate")
ENTRY = '{"message": "boom"}\n'


def run(*sqls: str) -> None:
    with connections["postgresql"].cursor() as cursor:
        for sql in sqls:
            cursor.execute(sql)


def fetch(sql: str, *params: object) -> list[tuple]:
    with connections["postgresql"].cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall()


def fill_all(share: int = 1) -> None:
    fill("djqueue_job", 20_000 // share, status="'pending'", dedup_key="'key-' || n")
    fill(
        "djqueue_job",
        20_000 // share,
        status="'claimed'",
        attempts="1",
        token="md5((n / 100)::text)::uuid",
        worker="'w'",
        worker_ids="'w,'",
        started="true",
        claimed_at="now()",
        started_at="now()",
        lease_expires_at="now()",
    )
    fill("djqueue_job", 10_000 // share, status="'scheduled'", run_at="now() - interval '1 hour'")
    # Many jobs of one key, and many keys; the jobs of the first hold permits of both.
    fill("djqueue_job", 10_000 // share, status="'blocked'", limit_key="'one'")
    fill("djqueue_job", 10_000 // share, status="'blocked'", limit_key="'key-' || n")
    holds = "CASE WHEN mod(n, 2) = 0 THEN 'one' ELSE 'key-' || n END"
    fill("djqueue_job", FEW, status="'pending'", limit_key=holds, priority="5000")
    fill("djqueue_donejob", 10_000 // share, status="'done'", completed_at="now()")
    fill("djqueue_deadjob", 10_000 // share, failed_at="now()")


def analysed_while_empty() -> None:
    fill_all(10)
    run(*(f"DELETE FROM {table}" for table in TABLES), f"VACUUM (TRUNCATE false, ANALYZE) {', '.join(TABLES)}")
    assert fetch("SELECT relpages > 0, reltuples FROM pg_class WHERE relname = 'djqueue_job'") == [(True, 0)]
    fill_all()


def emptied() -> None:
    """Analysed while it was in use and again while empty: PostgreSQL keeps what it knew of the columns."""
    fill_all(10)
    run(f"ANALYZE {', '.join(TABLES)}")
    run(*(f"DELETE FROM {table}" for table in TABLES))
    analysed_while_empty()


def never_analysed() -> None:
    fill_all()
    assert fetch("SELECT reltuples FROM pg_class WHERE relname = 'djqueue_job'") == [(-1,)]


def stale() -> None:
    """Analysed with a hundred jobs, all of them pending."""
    fill("djqueue_job", 100, status="'pending'")
    run(f"ANALYZE {', '.join(TABLES)}")
    fill_all()


def fresh() -> None:
    fill_all()
    run(f"ANALYZE {', '.join(TABLES)}")


STATISTICS = {
    "analysed while empty": analysed_while_empty,
    "emptied": emptied,
    "never analysed": never_analysed,
    "stale": stale,
    "fresh": fresh,
}


@pytest.fixture(scope="module", params=STATISTICS)
def filled(request, django_db_setup, django_db_blocker) -> Iterator[str]:
    """Fifty thousand jobs in all states. All tests with the same statistics share them, and roll back."""
    with django_db_blocker.unblock():
        run(f"TRUNCATE {', '.join(TABLES)}", *(f"ALTER TABLE {t} SET (autovacuum_enabled = false)" for t in TABLES))
        run(*(f"DELETE FROM pg_statistic WHERE starelid = '{table}'::regclass" for table in TABLES))
        STATISTICS[request.param]()
        yield request.param
        run(f"TRUNCATE {', '.join(TABLES)}", *(f"ALTER TABLE {t} RESET (autovacuum_enabled)" for t in TABLES))
        run(f"ANALYZE {', '.join(TABLES)}")


@pytest.fixture(params=["client-side", "server-side", "generic plan"])
def alias(request, filled, settings, django_db_blocker) -> Iterator[str]:
    """The ways in which a statement gets its parameters: in its text, beside it, or too late for its plan."""
    alias = "postgresql" if request.param == "client-side" else "postgresql_bound"
    settings.DJQUEUE = {"DATABASE": alias}
    connection = connections[alias]
    with django_db_blocker.unblock():
        if request.param == "generic plan":
            connection.ensure_connection()
            connection.connection.prepare_threshold = 0
            connection.cursor().execute("SET plan_cache_mode = force_generic_plan")
        yield alias
        connection.close()


def ids(status: str) -> list[UUID]:
    table = "djqueue_deadjob WHERE true" if status == "dead" else f"djqueue_job WHERE status = '{status}'"
    return [row[0] for row in fetch(f"SELECT id FROM {table} ORDER BY md5(id::text) LIMIT {GROUP}")]


def claims() -> list[tuple[UUID, UUID]]:
    return fetch(f"SELECT id, token FROM djqueue_job WHERE status = 'claimed' ORDER BY md5(id::text) LIMIT {GROUP}")


def decisions(verdict: Verdict, **values: object) -> list[Decision]:
    return [decide(Settlement(id=job, token=token, verdict=verdict, **values)) for job, token in claims()]


def claim(count: int, **marks: Mark) -> Callable[[], object]:
    request = claim_request({"default": count}, marks=marks)
    return lambda: statements().claim(request)


def first_place() -> Mark:
    sql = "SELECT priority, enqueued_at, id FROM djqueue_job WHERE status = 'pending' AND queue = 'default'"
    return Mark(*fetch(f"{sql} ORDER BY 1, 2, 3 LIMIT 1")[0])


def settle(verdict: Verdict, *, wait: bool, reaping: bool = False, **values: object) -> Callable[[], object]:
    items = decisions(verdict, **values)
    expired_at = datetime.now(UTC) if reaping else None
    return lambda: [
        answer
        for answer in statements().settle(items, expired_at=expired_at, wait=wait)
        if answer.outcome not in ("lost", "locked")
    ]


def ack(**values: object) -> Callable[[], object]:
    """Acknowledge a group by the statement for groups of acknowledgements alone."""
    items = [
        Settlement(id=job, token=token, verdict=Verdict.ACK, task="tests.app.tasks.add", queue="default", **values)
        for job, token in claims()
    ]
    return lambda: items if statements().ack(items) else []


def renew(*, wait: bool) -> Callable[[], object]:
    items = [Renew(id=job, token=token, lease=30.0) for job, token in claims()]
    return lambda: [answer for answer in statements().renew(items, wait=wait) if answer and answer.expires_at]


def insert(**values: str) -> Callable[[], object]:
    jobs = [
        NewJob(
            id=uuid7(),
            args="[]",
            kwargs="{}",
            task="tests.app.tasks.add",
            queue="default",
            priority=1000,
            max_attempts=3,
            **{name: value and f"{value}{n}" for name, value in values.items()},
            own_id=True,
        )
        for n in range(1, FEW + 1)
    ]
    return lambda: statements().insert(jobs, {})


def with_ids(status: str, act: Callable[[list[UUID]], object]) -> Callable[[], object]:
    found = ids(status)
    return lambda: act(found)


ACTS: dict[str, Callable[[], Callable[[], object]]] = {
    "claim": lambda: claim(GROUP),
    "claim from a mark": lambda: claim(GROUP, default=first_place()),
    "ack": lambda: ack(),
    "ack with results": lambda: ack(result="[1]"),
    "ack without history": lambda: ack(keep_done=False),
    "ack one by one": lambda: settle(Verdict.ACK, wait=False),
    "ack, waiting": lambda: settle(Verdict.ACK, wait=True),
    "retry": lambda: settle(Verdict.NACK, wait=False, entry=ENTRY, error="boom", delay=5.0),
    "retry, waiting": lambda: settle(Verdict.NACK, wait=True, entry=ENTRY, error="boom", delay=5.0),
    "bury": lambda: settle(Verdict.NACK, wait=False, entry=ENTRY, error="boom", final=True),
    "reap": lambda: settle(Verdict.REAP, wait=False, reaping=True, entry=ENTRY, error="boom"),
    "renew": lambda: renew(wait=False),
    "renew, waiting": lambda: renew(wait=True),
    "promote": lambda: lambda: statements().promote(GROUP),
    "cancel pending": lambda: with_ids("pending", lambda found: statements().cancel(found, {}, True)),
    "cancel claimed": lambda: with_ids("claimed", lambda found: statements().cancel(found, {}, True)),
    "requeue": lambda: with_ids("dead", lambda found: statements().requeue([Requeue(id=job) for job in found])),
    "reschedule": lambda: with_ids("pending", lambda found: statements().reschedule(found, None, 5)),
    "put back": lambda: (
        lambda: range(statements().put_back("default", ["tests.app.tasks.add"], GROUP, 10.0, 60.0, 600.0))
    ),
    "read one key": lambda: lambda: limits.read(statements(), ["one"]) * FEW,
    "read keys": lambda: lambda: limits.read(statements(), [f"key-{n}" for n in range(1, FEW + 1)]),
    "admit jobs of one key": lambda: lambda: statements().admit([Admit("one", None, None, GROUP)])[0],
    "admit jobs of many keys": lambda: (
        lambda: statements().admit([Admit(f"key-{n}", 5, None, 5) for n in range(1, GROUP + 1)])[0]
    ),
    "look for keys": lambda: lambda: limits.blocked_keys(statements(), "key-", FEW),
    "look for queues": lambda: lambda: statements().claimable_queues() * FEW,
    "get": lambda: with_ids("pending", lambda found: statements().get_many(found[:FEW])),
    "insert own ids": lambda: insert(),
    "hit with own ids": lambda: insert(dedup_key="key-"),
}

# What this connection has read in the open transaction. The shared statistics would not do: other connections add to
# them whenever they like.
READ = """
    SELECT sum(pg_stat_get_xact_numscans(oid)) FILTER (WHERE relkind = 'r'),
           sum(CASE relkind WHEN 'r' THEN pg_stat_get_xact_tuples_returned(oid) ELSE 0 END
               + pg_stat_get_xact_tuples_fetched(oid)),
           sum(pg_stat_get_xact_tuples_returned(oid)) FILTER (WHERE relkind = 'i'),
           sum(pg_stat_get_xact_blocks_fetched(oid))
    FROM pg_class WHERE relname = ANY(%s)
        OR oid IN (SELECT indexrelid FROM pg_index JOIN pg_class t ON t.oid = indrelid WHERE t.relname = ANY(%s))
"""


def counters(alias: str) -> list[int]:
    with connections[alias].cursor() as cursor:
        cursor.execute(READ, [list(TABLES[:3])] * 2)
        return [int(value) for value in cursor.fetchone()]


@pytest.mark.parametrize("act", ACTS)
def test_a_statement_reads_only_what_it_works_on(alias, act):
    work = ACTS[act]()
    with transaction.atomic(using=alias):
        before = counters(alias)
        done = work()
        after = counters(alias)
        transaction.set_rollback(True, using=alias)
    assert len(done) in (GROUP, FEW)
    scans, table_rows, entries, pages = [now - then for now, then in zip(after, before, strict=True)]
    found = f"{scans=} {table_rows=} {entries=} {pages=}"
    assert (entries, pages) > (0, 0), found
    assert scans == 0, found
    assert table_rows <= 5 * GROUP, found
    assert entries <= 10 * GROUP, found
    assert pages <= 40 * GROUP, found
