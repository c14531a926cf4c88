"""Migrations, tables and indexes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db.migrations.loader import MigrationLoader
from django.db.models import Model

from djqueue.fields import PartialStatusIndex, PermitIndex
from djqueue.operations.codes import Code
from djqueue.operations.findings import Finding, Severity, Subject
from djqueue.operations.wording import listed
from djqueue.sql import Statements

APP = "djqueue"
INVALID = """
    SELECT i.relname FROM pg_index x
    JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
    WHERE t.relname = ANY(%s) AND pg_table_is_visible(t.oid) AND NOT (x.indisvalid AND x.indisready)
"""


def tables(database: Statements) -> Iterator[Finding]:
    """Report migrations that are not applied, and tables that do not exist."""
    migrate = f"Run manage.py migrate {APP} --database {database.alias}."
    if missing := _unapplied(database):
        text = f"Migrations of djqueue are not applied to the database {database.alias!r}: {listed(missing)}."
        yield _finding(database, Code.MIGRATION_MISSING, text, migrate)
        return
    existing = set(database.connection.introspection.table_names())
    if missing := [model._meta.db_table for model in _models() if model._meta.db_table not in existing]:
        yield _finding(
            database,
            Code.MIGRATION_MISSING,
            f"Tables are missing in the database {database.alias!r}, though its migrations are recorded as applied: "
            f"{listed(missing)}.",
            "If a database router keeps djqueue from this database, set DJQUEUE['DATABASE'] to the right one. "
            f"Otherwise run manage.py migrate {APP} zero --fake and then manage.py migrate {APP}, each with "
            f"--database {database.alias}.",
        )


def _unapplied(database: Statements) -> list[str]:
    loader = MigrationLoader(database.connection)
    wanted = {key for leaf in loader.graph.leaf_nodes(APP) for key in loader.graph.forwards_plan(leaf)}
    return sorted(name for app, name in wanted - set(loader.applied_migrations) if app == APP)


def indexes(database: Statements) -> Iterator[Finding]:
    """Compare the indexes of our tables with those of the models."""
    invalid = _invalid(database)
    for name in sorted(invalid):
        yield _finding(
            database,
            Code.INDEX_INVALID,
            f"The index {name} is invalid: it was not built to its end, and no query uses it.",
            f"Run REINDEX INDEX CONCURRENTLY {name}, or DROP INDEX CONCURRENTLY {name} if its name ends in _ccnew or "
            "_ccold.",
        )
    for model in _models():
        with database.connection.cursor() as cursor:
            found = database.connection.introspection.get_constraints(cursor, model._meta.db_table)
        yield from _compared(
            database, model, {name: row for name, row in found.items() if name not in invalid}, invalid
        )


def _compared(database: Statements, model: type[Model], found: dict[str, Any], invalid: set[str]) -> Iterator[Finding]:
    table = model._meta.db_table
    partial = database.connection.features.supports_partial_indexes
    absent = () if partial else (PartialStatusIndex, PermitIndex)
    named = {index.name for index in model._meta.indexes if not isinstance(index, absent)}
    named |= {constraint.name for constraint in model._meta.constraints}
    # Django makes up the names of the others.
    single = [field.column for field in model._meta.local_fields if getattr(field, "db_index", False) or field.unique]
    present = [row["columns"] for row in found.values() if row["index"] or row["unique"] or row["primary_key"]]
    missing = sorted(named - set(found) - invalid) + [column for column in single if [column] not in present]
    for name in missing:
        yield _finding(
            database,
            Code.INDEX_MISSING,
            f"The table {table} has no index {name}."
            if name in named
            else f"The column {name} of {table} has no index.",
            f"Create it as the migration does: manage.py sqlmigrate {APP} 0001 --database {database.alias} shows the "
            "statement. On PostgreSQL, add CONCURRENTLY to it while workers run.",
        )
    for name, row in sorted(found.items()):
        kept = name in named or row["primary_key"] or row["check"] or row["foreign_key"]
        if (
            not kept
            and (row["index"] or row["unique"])
            and not (len(row["columns"]) == 1 and row["columns"][0] in single)
        ):
            yield _finding(
                database,
                Code.INDEX_UNEXPECTED,
                f"The table {table} has the index {name}, which djqueue has not created: every enqueue and claim may "
                "have to write to it.",
                f"Drop it (DROP INDEX {name}) unless your own queries need it.",
                Severity.WARNING,
            )


def _invalid(database: Statements) -> set[str]:
    if database.connection.vendor != "postgresql":
        return set()
    return {row[0] for row in database.fetch(INVALID, [[model._meta.db_table for model in _models()]])}


def _models() -> list[type[Model]]:
    return list(apps.get_app_config(APP).get_models())


def _finding(database: Statements, code: Code, text: str, remedy: str, severity: Severity = Severity.ERROR) -> Finding:
    return Finding(code=code, severity=severity, text=text, remedy=remedy, subject=Subject.DATABASE, key=database.alias)
