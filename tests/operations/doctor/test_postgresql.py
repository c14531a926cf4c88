"""Dead rows, sessions and notifications of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connections

import djqueue
from djqueue.models import KV
from djqueue.operations import transactions
from djqueue.operations.codes import Code
from djqueue.operations.doctor import postgresql
from djqueue.operations.findings import Finding, Severity, Subject
from djqueue.sql import statements
from djqueue.waiting import wakeup_sources
from tests import pgbouncer
from tests.factories import KVFactory
from tests.operations.test_attention import open_transaction
from tests.tools import eventually, rows

from .tools import examined

pytestmark = pytest.mark.databases("postgresql")


def test_dead_rows_that_are_not_removed_are_found(database):
    with connections[database].cursor() as cursor:
        cursor.execute("VACUUM djqueue_kv")

    def found(seconds: float) -> list[Finding]:
        listed = postgresql.dead_rows(statements(), rows=20, seconds=seconds)
        return [finding for finding in listed if "djqueue_kv" in finding.text]

    def look() -> list[Finding]:
        # The server counts them with a delay, and autovacuum may remove them at any moment.
        for number in range(30):
            KVFactory(key=f"dead/{number}")
        rows(KV).all().delete()
        return found(seconds=0)

    assert examined(Code.DEAD_ROWS) == []
    [finding] = eventually(look, 30)
    assert finding.text.startswith("The table djqueue_kv has ")
    assert "its last VACUUM was " in finding.text
    assert "VACUUM djqueue_kv" in finding.remedy
    assert finding.severity == Severity.WARNING
    assert found(seconds=900) == []  # cleaned moments ago


def test_a_session_that_this_user_may_not_read_is_found_by_its_transactions(database):
    with connections[database].cursor() as cursor:
        cursor.execute("DROP ROLE IF EXISTS djqueue_watcher")
        cursor.execute("CREATE ROLE djqueue_watcher")
        try:
            with open_transaction("CREATE TEMPORARY TABLE report (id int)") as pid:
                cursor.execute("SET ROLE djqueue_watcher")
                assert list(transactions.findings(statements(), seconds=0)) == []
                [finding] = transactions.findings(statements(), seconds=0, transactions=-1)
                cursor.execute("RESET ROLE")
                cursor.execute("GRANT pg_read_all_stats TO djqueue_watcher")
                cursor.execute("SET ROLE djqueue_watcher")
                [readable] = transactions.findings(statements(), seconds=0)
        finally:
            cursor.execute("RESET ROLE")
            cursor.execute("DROP ROLE djqueue_watcher")
    assert f"The session {pid} (user " in finding.text
    assert "transactions: claims become slower." in finding.text
    assert "query" not in finding.text
    assert "query CREATE TEMPORARY TABLE" in readable.text


def test_notifications_arrive_without_a_pooler(database):
    assert examined(Code.LISTEN_DEAF) == []


@contextmanager
def through_pgbouncer(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with pgbouncer.pgbouncer("postgresql") as pooled:
        monkeypatch.setitem(connections.settings, "pooled", pooled)
        try:
            yield "pooled"
        finally:
            connections["pooled"].close()
            del connections["pooled"]


@pytest.mark.skipif(pgbouncer.PROGRAM is None, reason="install pgbouncer, for example with apt-get install pgbouncer")
def test_a_pooler_in_transaction_mode_is_found(database, settings, monkeypatch):
    with through_pgbouncer(monkeypatch) as pooled:
        settings.DJQUEUE = {"DATABASE": pooled}
        assert djqueue.enqueue("tests.app.tasks.add", args=[1]).status() == "pending"
        [finding] = examined(Code.LISTEN_DEAF)
        assert wakeup_sources.source_in_use(pooled) == "poll"  # so do workers
        settings.DJQUEUE = {"DATABASE": pooled, "LISTEN_DATABASE": "postgresql"}
        assert examined(Code.LISTEN_DEAF) == []
        settings.DJQUEUE = {"DATABASE": pooled, "NOTIFY": False}
        assert examined(Code.LISTEN_DEAF) == []
    assert (finding.subject, finding.key) == (Subject.SETTINGS, "LISTEN_DATABASE")
    assert "Notifications do not arrive at the connection to 'pooled'" in finding.text
