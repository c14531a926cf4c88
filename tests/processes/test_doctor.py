"""The doctor beside real workers, and with a PostgreSQL that is started again with other settings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager

import pytest
from django.db import connections

from djqueue import kv
from djqueue.operations import doctor, health, summary, transactions
from djqueue.operations.codes import Code
from djqueue.operations.doctor import server
from djqueue.operations.findings import Finding
from djqueue.sql import statements
from tests import postgres
from tests.tools import eventually
from tests.worker import tasks

SESSIONS = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type LIKE 'cli%%'",
    "mysql": "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE()",
}


def sessions(database: str) -> set[int]:
    return {row[0] for row in statements().fetch(SESSIONS[database])}


def living() -> list[summary.WorkerSummary]:
    return [row for row in summary.all_workers() if row.alive]


@pytest.mark.databases("postgresql", "mysql")
@pytest.mark.parametrize(("processes", "threads"), [(2, 6), (0, 3)])
def test_workers_open_no_more_connections_than_the_doctor_counts(site, database, processes, threads):
    before = sessions(database)  # some may be those of an earlier worker, and end later
    running = site.start("--processes", str(processes), "--threads", str(threads))
    eventually(lambda: health.check().ready, 60)
    total = max(processes, 1) * threads
    handles = [tasks.wait_with_a_connection.enqueue("go") for _ in range(total)]
    most = 0

    def watch(condition: Callable[[], bool]) -> None:
        def look() -> bool:
            nonlocal most
            most = max(most, len(sessions(database) - before))
            return condition()

        eventually(look)

    watch(lambda: running.started(handles) == total and most > total)
    kv.set("go", True)
    watch(lambda: all(running.events()["completed", str(handle.id), 1] for handle in handles))
    # On a busy machine, a heartbeat may be late.
    alive = eventually(lambda: (found := living()) and len(found) == max(processes, 1) and found)
    need = server.needed(alive)
    print(f"database={database} processes={processes} threads={threads} open={most} counted={need}")
    assert total < most <= need


@pytest.mark.databases("postgresql", "sqlite", "mysql")
def test_a_real_worker_leaves_nothing_to_find(site, database):
    site.start_ready()
    assert tasks.double.enqueue(2).wait(60)
    eventually(lambda: findings() == [])  # a loop that is late on a busy machine is found, too
    eventually(lambda: health.check().ready)


def findings() -> list[Finding]:
    found = [finding for finding in doctor.examine() if finding.code != Code.SYSTEM_CHECK]
    print(found)
    return found


@contextmanager
def prepared_transactions_allowed(alias: str):
    def restart(sql: str) -> None:
        connections[alias].close()
        with connections[alias].cursor() as cursor:
            cursor.execute(sql)
        connections[alias].close()
        postgres.restart()

    restart("ALTER SYSTEM SET max_prepared_transactions = 5")
    try:
        yield
    finally:
        restart("ALTER SYSTEM RESET max_prepared_transactions")


@pytest.mark.skipif(not postgres.is_ours(), reason="restarts the server, which must be our own: unset DATABASE_URL")
@pytest.mark.databases("postgresql")
def test_a_prepared_transaction_is_found(database):
    with prepared_transactions_allowed(database), connections[database].cursor() as cursor:
        cursor.execute("BEGIN; CREATE TABLE half_done (id int); PREPARE TRANSACTION 'transfer 7'")
        try:
            [finding] = transactions.findings(statements(), seconds=0)
        finally:
            cursor.execute("ROLLBACK PREPARED 'transfer 7'")
    assert finding.text.startswith("The prepared transaction transfer 7 (user ")
    assert finding.remedy == "Run COMMIT PREPARED 'transfer 7' or ROLLBACK PREPARED 'transfer 7'."
