from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState

from tests.factories import (
    DeadJobFactory,
    DoneJobFactory,
    JobFactory,
    KVFactory,
    QueueStateFactory,
    ScheduleFactory,
    ThroughputFactory,
    WorkerFactory,
)


def test_the_models_have_their_migrations(database, through_pgbouncer):  # makemigrations connects to every alias
    from django.apps import apps

    loader = MigrationLoader(connections[database])
    changes = MigrationAutodetector(loader.project_state(), ProjectState.from_apps(apps)).changes(graph=loader.graph)
    assert "djqueue" not in changes
    call_command("makemigrations", "djqueue", check=True, dry_run=True, verbosity=0)


def test_every_table_accepts_rows(database):
    for factory in (
        JobFactory,
        DoneJobFactory,
        DeadJobFactory,
        KVFactory,
        ScheduleFactory,
        WorkerFactory,
        QueueStateFactory,
        ThroughputFactory,
    ):
        row = factory()
        row.refresh_from_db(using=database)
        assert str(row)


@pytest.mark.databases("postgresql")
def test_postgresql_storage_parameters_are_set(database):
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT reloptions FROM pg_class WHERE relname = 'djqueue_job'")
        options = " ".join(cursor.fetchone()[0])
    assert "fillfactor=70" in options
    assert "autovacuum_vacuum_scale_factor=0.01" in options


@pytest.mark.databases("postgresql", "sqlite")
def test_indexes_are_partial_where_supported(database):
    sql = {
        "postgresql": "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'djqueue_job'",
        "sqlite": "SELECT name, sql FROM sqlite_master WHERE tbl_name = 'djqueue_job' AND type = 'index'",
    }[database]
    with connections[database].cursor() as cursor:
        cursor.execute(sql)
        found = {name: text or "" for name, text in cursor.fetchall()}
    for name, condition in {
        "djqueue_job_claim": "pending",
        "djqueue_job_due": "scheduled",
        "djqueue_job_scheduled": "scheduled",
        "djqueue_job_claimed": "claimed",
        "djqueue_job_dedup": "IS NOT NULL",
        "djqueue_job_slot": "IS NOT NULL",
    }.items():
        assert condition in found[name]
    assert not any("lease_expires_at" in text for text in found.values())


@pytest.mark.databases("sqlite", "mysql", "postgresql")
def test_migrating_to_zero_and_back_leaves_a_working_queue(database):
    call_command("migrate", "djqueue", "zero", database=database, verbosity=0)
    try:
        assert "djqueue_job" not in connections[database].introspection.table_names()
    finally:
        call_command("migrate", "djqueue", database=database, verbosity=0)
    JobFactory()
