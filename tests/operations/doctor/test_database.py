"""Tables, indexes, clocks and connections, on real databases."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from djqueue.models import Job
from djqueue.operations import doctor
from djqueue.operations.codes import Code
from djqueue.operations.doctor import server
from djqueue.operations.findings import Severity, Subject
from djqueue.sql import statements
from tests.conftest import PLAIN
from tests.factories import JobFactory, WorkerFactory

from .tools import examined


def execute(alias: str, *sql: str) -> None:
    with connections[alias].cursor() as cursor:
        for statement in sql:
            cursor.execute(statement)


@contextmanager
def without_index(alias: str, name: str):
    [index] = [index for index in Job._meta.indexes if index.name == name]
    with connections[alias].schema_editor() as editor:
        editor.remove_index(Job, index)
    try:
        yield
    finally:
        with connections[alias].schema_editor() as editor:
            editor.add_index(Job, index)


@pytest.mark.databases(*PLAIN)
def test_a_migration_that_is_not_applied_is_found(database):
    recorder = MigrationRecorder(connections[database])
    recorder.record_unapplied("djqueue", "0001_initial")
    try:
        [finding] = doctor.examine()
    finally:
        recorder.record_applied("djqueue", "0001_initial")
    assert (finding.code, finding.severity) == (Code.MIGRATION_MISSING, Severity.ERROR)
    assert finding.text.endswith(f"are not applied to the database {database!r}: 0001_initial.")
    assert f"manage.py migrate djqueue --database {database}" in finding.remedy


@pytest.mark.databases(*PLAIN)
def test_a_database_without_tables_is_found(database):
    call_command("migrate", "djqueue", "zero", database=database, verbosity=0)
    try:
        [finding] = doctor.examine()
    finally:
        call_command("migrate", "djqueue", database=database, verbosity=0)
    assert finding.code == Code.MIGRATION_MISSING


@pytest.mark.databases(*PLAIN)
def test_a_table_that_is_missing_though_it_was_migrated_is_found(database):
    execute(database, "ALTER TABLE djqueue_kv RENAME TO elsewhere")
    try:
        [finding] = doctor.examine()
    finally:
        execute(database, "ALTER TABLE elsewhere RENAME TO djqueue_kv")
    assert finding.code == Code.MIGRATION_MISSING
    assert finding.text.endswith("recorded as applied: djqueue_kv.")


@pytest.mark.databases(*PLAIN)
def test_a_missing_index_is_found(database):
    with without_index(database, "djqueue_job_due"):
        [finding] = examined(Code.INDEX_MISSING)
    assert finding.text == "The table djqueue_job has no index djqueue_job_due."
    assert examined(Code.INDEX_MISSING) == []


@pytest.mark.databases(*PLAIN)
def test_a_missing_index_of_a_single_column_is_found(database):
    with connections[database].cursor() as cursor:
        found = connections[database].introspection.get_constraints(cursor, "djqueue_worker")
    [name] = [name for name, row in found.items() if row["columns"] == ["heartbeat_at"] and row["index"]]
    execute(database, f"DROP INDEX {name}" + " ON djqueue_worker" * (database == "mysql"))
    try:
        [finding] = examined(Code.INDEX_MISSING)
    finally:
        execute(database, f"CREATE INDEX {name} ON djqueue_worker (heartbeat_at)")
    assert finding.text == "The column heartbeat_at of djqueue_worker has no index."


@pytest.mark.databases(*PLAIN)
def test_an_unexpected_index_is_found(database):
    execute(database, "CREATE INDEX by_hand ON djqueue_job (enqueued_at)")
    try:
        [finding] = examined(Code.INDEX_UNEXPECTED)
    finally:
        execute(database, "DROP INDEX by_hand" + " ON djqueue_job" * (database == "mysql"))
    assert "djqueue_job has the index by_hand" in finding.text
    assert finding.severity == Severity.WARNING


@pytest.mark.databases("postgresql")
def test_an_index_that_was_not_built_to_its_end_is_found(database):
    JobFactory()
    JobFactory()
    try:
        with pytest.raises(Exception, match="could not create unique index"):
            execute(database, "CREATE UNIQUE INDEX CONCURRENTLY half ON djqueue_job (queue)")
        [finding] = examined(Code.INDEX_INVALID, Code.INDEX_UNEXPECTED)
    finally:
        execute(database, "DROP INDEX half")
    assert (finding.code, finding.severity) == (Code.INDEX_INVALID, Severity.ERROR)
    assert "The index half is invalid" in finding.text


@pytest.mark.databases("postgresql", "mysql")
@pytest.mark.parametrize(("seconds", "words"), [(60, "behind"), (-60, "ahead of")])
def test_clocks_that_differ_are_found(database, monkeypatch, seconds, words):
    """The clock of a server cannot be moved in a test: that of the host is moved instead."""
    assert examined(Code.CLOCK_SKEW) == []
    monkeypatch.setattr(server, "host_clock", lambda: datetime.now(UTC) + timedelta(seconds=seconds))
    [finding] = examined(Code.CLOCK_SKEW)
    assert words in finding.text
    assert finding.severity == Severity.WARNING


@pytest.mark.databases("postgresql", "mysql")
def test_a_slow_round_trip_is_not_a_skew(database, monkeypatch):
    ticks = iter(range(1000))
    start = datetime.now(UTC) - timedelta(seconds=5)
    monkeypatch.setattr(server, "host_clock", lambda: start + timedelta(seconds=10 * (next(ticks) % 2)))
    assert list(server.clocks(statements())) == []


@pytest.mark.databases("postgresql", "mysql")
def test_workers_that_need_more_connections_than_the_server_has_are_found(database):
    WorkerFactory(threads=4)
    assert examined(Code.CONNECTIONS) == []
    for number in range(3):
        WorkerFactory(threads=1000, supervisor=f"s{number}")
    WorkerFactory(threads=50_000, stopped_at=datetime.now(UTC))
    [finding] = examined(Code.CONNECTIONS)
    assert "4 worker processes may open up to 3,036" in finding.text
    assert (finding.subject, finding.key) == (Subject.DATABASE, database)


@pytest.mark.databases("mysql")
def test_another_isolation_level_is_found(database):
    execute(database, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    try:
        [finding] = examined(Code.MYSQL_ISOLATION)
    finally:
        execute(database, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    assert "is REPEATABLE-READ" in finding.text
    assert "read committed" in finding.remedy


@pytest.mark.databases("mysql")
def test_a_packet_that_is_too_small_for_the_largest_payload_is_found(database, configure):
    configure(MAX_PAYLOAD_SIZE=1024**3)
    [finding] = examined(Code.MYSQL_PACKET)
    assert "may need 2,147,549,184" in finding.text


@pytest.mark.databases("sqlite")
def test_a_file_without_wal_is_found(database, settings, monkeypatch, tmp_path):
    """In a file of its own: the mode can only be changed while no other connection is open."""
    copied = {**connections.settings[database], "NAME": str(tmp_path / "db.sqlite3"), "OPTIONS": {}}
    monkeypatch.setitem(connections.settings, "file", copied)
    settings.DJQUEUE = {"DATABASE": "file"}
    try:
        call_command("migrate", "djqueue", database="file", verbosity=0)
        [finding] = examined(Code.SQLITE_JOURNAL)
        execute("file", "PRAGMA journal_mode=WAL")
        assert examined(Code.SQLITE_JOURNAL) == []
    finally:
        connections["file"].close()
        del connections["file"]
    assert "has the journal mode DELETE" in finding.text


@pytest.mark.databases("sqlite")
def test_sqlite_options_under_which_writers_fail_are_found(database, monkeypatch):
    monkeypatch.setitem(connections[database].settings_dict, "OPTIONS", {"timeout": 5})
    assert "djqueue.W003" in [finding.key for finding in examined(Code.SYSTEM_CHECK)]
