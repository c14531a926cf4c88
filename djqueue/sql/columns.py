"""The columns that statements name, derived from the models and the records.

A new column of a job is a field of `models.JobFields` (or Job, DoneJob) and, where it crosses into Python, a field of
the record that carries it: NewJob brings it in, ClaimedRow and JobRecord read it. No list here has to be changed,
except FORGOTTEN, if a requeued job starts without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from types import NoneType
from typing import Any, get_args, get_type_hints
from uuid import UUID

from django.db import models

from djqueue.core.records import ClaimedRow, JobRecord, NewJob
from djqueue.fields import ArgumentsField, JSONLinesField, JSONTextField, WordsField, lines, read, read_typed, words
from djqueue.models import DeadJob, DoneJob, Job, JobFields
from djqueue.states import Status

# Characters. A column that would become longer loses its oldest entries, or words.
MAX_ERRORS = 256 * 1024
MAX_WORKER_IDS = 64 * 1024

# The PostgreSQL type in which a value of a record is sent. The first class that the value's type is a subclass of.
_POSTGRESQL_TYPES: dict[type, str] = {
    bool: "bool",
    int: "int8",
    float: "float8",
    str: "text",
    UUID: "uuid",
    datetime: "timestamptz",
}


def types_of(record: type) -> dict[str, type]:
    """Return the types of a record's fields by name, without None."""
    return {name: _without_none(hint) for name, hint in get_type_hints(record).items()}


def _without_none(hint: Any) -> Any:
    return next((kind for kind in get_args(hint) if kind is not NoneType), hint) if NoneType in get_args(hint) else hint


def postgresql_types(record: type, *, leave_out: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return the fields of a record, each with the PostgreSQL type in which it is sent."""
    return [
        (name, next(sql for python, sql in _POSTGRESQL_TYPES.items() if issubclass(kind, python)))
        for name, kind in types_of(record).items()
        if name not in leave_out
    ]


def columns_of_model(model: type[models.Model]) -> list[str]:
    return [field.attname for field in model._meta.local_concrete_fields]


# What a job takes along when it moves between Job, DoneJob and DeadJob.
KEPT = columns_of_model(JobFields)
DONE = columns_of_model(DoneJob)

# What a new job brings along as it is. Its times and its status are set by the statement.
GIVEN = [name for name in types_of(NewJob) if name in columns_of_model(Job) and name != "run_at"]
RETURNED_BY_INSERT = "id, queue, dedup_key, status, run_at, enqueued_at, limit_key"

# What a requeued job starts without, or with another value.
FORGOTTEN = (
    "args kwargs errors run_at attempts started_at last_attempted_at claimed_at failed_at last_error worker_ids "
    "progress cancel_requested dedup_key crashes slot"
).split()
REVIVED = [name for name in KEPT if name not in FORGOTTEN]

# What a claim returns.
CLAIMED = list(types_of(ClaimedRow))

RECORD = list(types_of(JobRecord))


def _absent(model: type[models.Model], **constants: str) -> dict[str, str]:
    """Return what a record has of a column that the model lacks, as SQL."""
    columns = columns_of_model(model)
    return {name: constants.get(name, "NULL") for name in RECORD if name not in columns}


NOT_IN_JOB = _absent(Job)
NOT_IN_DONE = _absent(DoneJob)
NOT_IN_DEAD = _absent(DeadJob, status=f"'{Status.DEAD.value}'")
WITHOUT_PAYLOAD = {"args": "'[]'", "kwargs": "'{}'", "headers": "'{}'", "errors": "''", "progress": "NULL"}
STATE_ONLY = WITHOUT_PAYLOAD | {"progress": "progress", "result": "NULL", "last_error": "''", "worker_ids": "''"}


def select_record(table: str, absent: dict[str, str]) -> str:
    return f"SELECT {', '.join(absent.get(name, name) for name in RECORD)} FROM {table}"


# The live row first: PostgreSQL takes the types from its columns, where the other tables have NULL.
_TABLES = {"djqueue_job": NOT_IN_JOB, "djqueue_donejob": NOT_IN_DONE, "djqueue_deadjob": NOT_IN_DEAD}
SELECTS = tuple(select_record(table, absent) for table, absent in _TABLES.items())
SELECTS_OF_STATE = tuple(select_record(table, absent | STATE_ONLY) for table, absent in _TABLES.items())

_FIELDS = {field.attname: field for model in (Job, DoneJob) for field in model._meta.local_concrete_fields}
_READERS: dict[type[models.Field[Any, Any]], Callable[[Any], Any]] = {
    JSONTextField: read,
    ArgumentsField: read_typed,  # after its base class
    JSONLinesField: lines,
    WordsField: words,
    models.BooleanField: bool,
}

# How the values of a record are read from the texts and numbers in which the database stores them.
READERS: dict[str, Callable[[Any], Any]] = {"status": Status} | {
    name: reader for name in RECORD for kind, reader in _READERS.items() if isinstance(_FIELDS[name], kind)
}
RECORD_INSTANTS = [name for name in RECORD if isinstance(_FIELDS[name], models.DateTimeField)]
CLAIMED_INSTANTS = [name for name in CLAIMED if isinstance(_FIELDS[name], models.DateTimeField)]
