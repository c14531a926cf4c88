"""The rules of docs/howto/upgrading.md for migrations: workers of the previous release run on the new tables."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from django.db import connections, migrations, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.operations.base import Operation
from django.db.models import Value
from django.db.models.functions import Random

from djqueue.fields import AddIndexConcurrently
from tests.tools import eventually, waits_for_a_lock

ADDITIVE = (
    migrations.CreateModel,
    migrations.AlterModelOptions,
    migrations.AlterModelManagers,
    AddIndexConcurrently,
)


def problems(migration: Migration) -> list[str]:
    """Return what breaks the rule that the code of the previous release runs on the tables after this migration."""
    return [problem for operation in migration.operations for problem in _problems(operation, migration.atomic)]


def _problems(operation: Operation, atomic: bool) -> Iterator[str]:
    what = operation.describe()
    if isinstance(operation, AddIndexConcurrently):
        if atomic:
            yield f"{what}: an index is made concurrently with atomic = False"
    elif isinstance(operation, migrations.AddField):
        field = operation.field
        if not field.null and not field.has_db_default() and not field.many_to_many:
            yield f"{what}: the previous release does not write it, so it needs null=True or a db_default"
        if field.has_db_default() and not isinstance(field._db_default_expression, Value):
            yield f"{what}: PostgreSQL may write the whole table anew for an expression, use a constant db_default"
        if field.unique or field.db_index or field.is_relation:
            yield f"{what}: its index must be added concurrently, by an operation of its own"
    elif isinstance(operation, migrations.SeparateDatabaseAndState):
        for inner in operation.database_operations:
            yield from _problems(inner, atomic)
    elif isinstance(operation, migrations.RunPython | migrations.RunSQL):
        if not operation.hints.get("reviewed"):
            yield f'{what}: set hints={{"reviewed": …}} why workers of the previous release are not disturbed'
    elif isinstance(operation, migrations.AddIndex):
        yield f"{what}: AddIndex locks the table against writes, use djqueue.fields.AddIndexConcurrently"
    elif not isinstance(operation, ADDITIVE):
        yield f"{what}: {type(operation).__name__} is not additive; it may come a release after the code that needs it"


def test_migrations_after_the_first_are_additive():
    loader = MigrationLoader(None)
    for (app, name), migration in loader.disk_migrations.items():
        if app == "djqueue" and name != "0001_initial":
            assert problems(migration) == [], name


def made(*operations: Operation, atomic: bool = True) -> Migration:
    migration = Migration("0002_made_up", "djqueue")
    migration.operations, migration.atomic = list(operations), atomic
    return migration


VOLATILE = models.FloatField(db_default=Random())
INDEX = models.Index(fields=["queue"], name="made_up")
BAD = {
    "a column is removed": made(migrations.RemoveField("job", "queue")),
    "a column is renamed": made(migrations.RenameField("job", "queue", "line")),
    "a column is altered": made(migrations.AlterField("job", "queue", models.CharField(max_length=10))),
    "a column without a default": made(migrations.AddField("job", "x", models.IntegerField(default=0))),
    "a column with a default that is computed": made(migrations.AddField("job", "x", VOLATILE)),
    "a unique column": made(migrations.AddField("job", "x", models.IntegerField(null=True, unique=True))),
    "a table is removed": made(migrations.DeleteModel("kv")),
    "a table is renamed": made(migrations.AlterModelTable("kv", "other")),
    "an index that locks": made(migrations.AddIndex("job", INDEX)),
    "an index in a transaction": made(AddIndexConcurrently("job", INDEX)),
    "an index is removed": made(migrations.RemoveIndex("job", "djqueue_job_claim")),
    "a constraint": made(
        migrations.AddConstraint("job", models.CheckConstraint(condition=models.Q(queue="x"), name="c"))
    ),
    "unreviewed SQL": made(migrations.RunSQL("LOCK TABLE djqueue_job")),
    "hidden in another operation": made(
        migrations.SeparateDatabaseAndState(database_operations=[migrations.RemoveField("job", "queue")])
    ),
}
GOOD = {
    "a column that may be null": made(migrations.AddField("job", "x", models.IntegerField(null=True))),
    "a column with a default": made(migrations.AddField("job", "x", models.IntegerField(db_default=0, default=0))),
    "a table": made(migrations.CreateModel("New", [("id", models.BigAutoField(primary_key=True))])),
    "an index": made(AddIndexConcurrently("job", INDEX), atomic=False),
    "reviewed SQL": made(migrations.RunSQL("SELECT 1", hints={"reviewed": "changes nothing"})),
}


@pytest.mark.parametrize("name", BAD)
def test_a_migration_that_breaks_the_rule_is_noticed(name):
    assert len(problems(BAD[name])) == 1


@pytest.mark.parametrize("name", GOOD)
def test_a_migration_that_keeps_the_rule_passes(name):
    assert problems(GOOD[name]) == []


# Locks


@contextmanager
def applied(database: str, migration: Migration) -> Iterator[threading.Thread]:
    """Apply a migration in a thread, on a connection of its own, and undo it in the end."""
    state = MigrationLoader(connections[database]).project_state(("djqueue", "0001_initial"))
    failures: list[BaseException] = []

    def apply() -> None:
        try:
            with connections[database].schema_editor(atomic=migration.atomic) as editor:
                migration.apply(state.clone(), editor)
        except BaseException as error:
            failures.append(error)
        finally:
            connections[database].close()

    thread = threading.Thread(target=apply)
    thread.start()
    try:
        yield thread
    finally:
        thread.join(30)
        with connections[database].schema_editor(atomic=migration.atomic) as editor:
            migration.unapply(state.clone(), editor)
    assert failures == []


def strong_locks(database: str) -> list[str]:
    """Return the locks on the table of jobs, held or waited for, that no statement of a worker runs beside."""
    with connections[database].cursor() as cursor:
        cursor.execute(
            "SELECT mode FROM pg_locks WHERE relation = 'djqueue_job'::regclass AND mode IN"
            " ('AccessExclusiveLock', 'ExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock')"
        )
        return [mode for [mode] in cursor.fetchall()]


def locks_beside_a_transaction(database: str, migration: Migration) -> set[str]:
    """Return the strong locks of a migration that runs while a transaction uses the table of jobs."""
    seen: set[str] = set()
    other = "postgresql_bound"  # another connection to the same database
    with transaction.atomic(using=other), connections[other].cursor() as cursor:
        cursor.execute("UPDATE djqueue_job SET priority = 1")
        with ExitStack() as stack:
            migrating = stack.enter_context(applied(database, migration))
            stack.callback(connections[other].connection.rollback)  # before the migration is undone, which waits for it
            eventually(lambda: waits_for_a_lock(database))  # for the transaction
            for _ in range(20):
                seen.update(strong_locks(database))
                migrating.join(0.01)
    connections[other].close()
    return seen


@pytest.mark.databases("postgresql", "sqlite", "mysql")
def test_an_index_is_made_on_every_database(database):
    def indexes() -> set[str]:
        with connections[database].cursor() as cursor:
            return set(connections[database].introspection.get_constraints(cursor, "djqueue_job"))

    before = indexes()
    with applied(database, GOOD["an index"]) as migrating:
        migrating.join(60)
        assert indexes() == before | {INDEX.name}
    assert indexes() == before


@pytest.mark.databases("postgresql")
def test_an_index_made_concurrently_takes_no_lock_that_workers_wait_for(database):
    assert locks_beside_a_transaction(database, GOOD["an index"]) == set()


@pytest.mark.databases("postgresql")
def test_an_index_that_locks_out_the_workers_is_noticed(database):
    assert locks_beside_a_transaction(database, BAD["an index that locks"]) == {"ShareLock"}


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize(
    ("migration", "rewrites"),
    [
        (GOOD["a column that may be null"], False),
        (GOOD["a column with a default"], False),
        (BAD["a column with a default that is computed"], True),
    ],
    ids=["null", "default", "volatile"],
)
def test_a_new_column_does_not_rewrite_the_table(database, migration, rewrites):
    """PostgreSQL locks the table out while it writes it anew; otherwise the lock is held for milliseconds."""

    def file_of_the_table() -> int:
        with connections[database].cursor() as cursor:
            cursor.execute("SELECT pg_relation_filenode('djqueue_job')")
            return cursor.fetchone()[0]

    before = file_of_the_table()
    with applied(database, migration) as migrating:
        migrating.join(30)
        assert (file_of_the_table() != before) == rewrites
