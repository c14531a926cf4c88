"""Lock, change and move many rows of djqueue_job at once, on SQLite and MariaDB.

Only small columns of a row are read and sent. Its arguments, results and errors move between tables on the server.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.db.models import CharField, DateTimeField, TextField

from djqueue.models import Job

from .columns import KEPT, MAX_ERRORS, types_of
from .common import Common, holders
from .connection import IDS_AT_ONCE, ROWS_AT_ONCE, batches_of, slices_of


@dataclass(slots=True)
class Held:
    """The small columns of a locked row. The large ones stay in the database."""

    id: UUID
    token: UUID | None
    queue: str
    task: str
    attempts: int
    max_attempts: int
    started: bool
    returns: int
    crashes: int
    cancel_requested: bool
    run_at: datetime
    started_at: datetime | None
    lease_expires_at: datetime | None
    unknown_since: datetime | None
    limit_key: str | None


HELD = list(types_of(Held))
_HELD_INSTANTS = [place for place, kind in enumerate(types_of(Held).values()) if issubclass(kind, datetime)]


class Rows(Common):
    """The statements that the transitions of `Portable` are made of."""

    lock_sql = ""  # makes a SELECT read and lock what is committed now
    skip_locked_sql = ""  # the same, without rows that another transaction has locked
    blocked_sql = ""  # a hint to find blocked jobs by their limit key
    length_sql = "length"  # in characters
    join_sql = "CROSS JOIN"  # one that keeps the order of the tables: values first, then rows by their ids
    by_id_sql = ""  # a hint to find these rows by their primary key
    lease_column = "lease_expires_at"  # carries the values that expiry_sql() reads

    @abstractmethod
    def lock(self, columns: Sequence[str], ids: Sequence[UUID], *, skip_locked: bool) -> tuple[datetime, list[Any]]:
        """Return the present and these columns of the rows, which stay locked until the transaction ends."""

    @abstractmethod
    def concat_sql(self, *texts: str) -> str:
        """Return the concatenation of texts, as SQL."""

    def current_sql(self) -> str:
        """Return what makes a SELECT read what is committed now, where the snapshot of the transaction may be older."""
        return ""

    def lease_value(self, row: Held, seconds: float | None, now: datetime) -> Any:
        return row.lease_expires_at if seconds is None else now + timedelta(seconds=seconds)

    def expiry_sql(self) -> str:
        """Return the new expiry of a lease, as SQL within an upsert."""
        return self.new_sql(self.lease_column)

    def newest_sql(self, text: str, separator: str, limit: int) -> str:
        """Return the SQL of `newest`."""
        tail = f"SUBSTR({text}, {-limit - 1})"
        newest = f"SUBSTR({tail}, INSTR({tail}, '{separator}') + 1)"
        return f"CASE WHEN {self.length_sql}({text}) <= {limit} THEN {text} ELSE {newest} END"

    def hold(self, ids: Sequence[UUID], *, skip_locked: bool) -> tuple[datetime, dict[UUID, Held]]:
        now, rows = self.lock(HELD, ids, skip_locked=skip_locked)
        held = {}
        for values in map(list, rows):
            values[0] = self.uuid(values[0])
            values[1] = values[1] and self.uuid(values[1])
            for place in _HELD_INSTANTS:
                values[place] = self.instant(values[place])
            held[values[0]] = Held(*values)
        return now, held

    def upsert(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        changes: Mapping[str, str],
        params: Sequence[Any] = (),
        *,
        returning: str = "",
    ) -> list[Any]:
        """Change locked rows, each by its own values: an upsert that never inserts, linear where CASEs are not.

        The changes are SQL, in an order in which none reads a column that an earlier one has written: MariaDB assigns
        one after the other.
        """
        fillers = _fillers(*columns)
        row = f"({', '.join(['%s'] * len(columns) + list(fillers.values()))})"
        assignments = ", ".join(f"{name} = {change}" for name, change in changes.items())
        found: list[Any] = []
        for part in batches_of(rows, characters, ROWS_AT_ONCE):
            sql = (
                f"INSERT INTO djqueue_job ({', '.join([*columns, *fillers])}) VALUES {', '.join([row] * len(part))} "
                f"{self.on_conflict_sql('(id)')} {assignments}"
            )
            values = [self.adapt(value) for row in part for value in row]
            if returning:
                found += self.fetch(f"{sql} RETURNING {returning}", [*values, *params])
            else:
                self.execute(sql, [*values, *params])
        return found

    def given_sql(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[str, list[Any]]:
        """Return a table `v` of values, to be joined by its id, and its parameters."""
        row = f"({holders(columns)})"
        sql = f"WITH v({', '.join(columns)}) AS (VALUES {', '.join([row] * len(rows))})"
        return sql, [self.adapt(value) for row in rows for value in row]

    def delete_sql(self, table: str, count: int) -> str:
        """Return a DELETE of so many ids."""
        return f"DELETE FROM {table} WHERE id IN ({', '.join(['%s'] * count)})"

    def delete(self, table: str, ids: Sequence[UUID]) -> None:
        for part in slices_of(ids, IDS_AT_ONCE):
            self.execute(self.delete_sql(table, len(part)), [self.adapt(i) for i in part])

    def move(
        self, table: str, columns: list[str], rows: Sequence[Sequence[Any]], now: datetime, more: Mapping[str, Any]
    ) -> None:
        """Copy locked rows into a history, over the row that an earlier life of the job may have left under its id.

        The given `error` and `entry` are added to the failures of the row. The other columns replace those of the row.
        """
        errors = self.newest_sql(self.concat_sql("j.errors", "v.entry"), "\n", MAX_ERRORS)
        copied = {name: f"j.{name}" for name in KEPT} | {name: f"v.{name}" for name in columns[1:-2]}
        failure = {
            "failed_at": "CASE WHEN v.entry <> '' THEN %s ELSE j.failed_at END",
            "last_error": "CASE WHEN v.entry <> '' THEN v.error ELSE j.last_error END",
            "errors": f"CASE WHEN v.entry <> '' THEN {errors} ELSE j.errors END",
        }
        for part in batches_of(rows, characters, ROWS_AT_ONCE):
            failed = any(row[-1] for row in part)
            if not failed:
                part = [row[:-2] for row in part]
            given, params = self.given_sql(columns if failed else columns[:-2], part)
            sources = copied | failure if failed else copied
            params += [self.adapt(now)] * failed + [self.adapt(value) for value in more.values()]
            self.execute(
                f"REPLACE INTO {table} ({', '.join([*sources, *more])}) {given} "
                f"SELECT {', '.join([*sources.values(), *['%s'] * len(more)])} "
                f"FROM v {self.join_sql} djqueue_job j ON j.id = v.id",
                params,
            )


def characters(row: Sequence[Any]) -> int:
    return sum(len(value) for value in row if isinstance(value, str))


@cache
def _fillers(*given: str) -> dict[str, str]:
    """Return values for columns that have no default: an upsert must give them, although it never inserts."""
    fillers = {}
    for field in Job._meta.concrete_fields:
        if not field.null and not field.has_db_default() and field.name not in given:
            kinds = {CharField: "''", TextField: "''", DateTimeField: "'2000-01-01'"}
            fillers[field.name] = next((sql for kind, sql in kinds.items() if isinstance(field, kind)), "0")
    return fillers


def newest(text: str, separator: str, limit: int) -> str:
    """Drop the oldest entries of a list in a text, each of which ends with the separator, until it fits the limit."""
    if len(text) <= limit:
        return text
    tail = text[-limit - 1 :]
    return tail[tail.find(separator) + 1 :]
