"""Plan the INSERT of a single job once per connection, instead of each time: planning takes as long as inserting.

A prepared statement can fail where a plain one would not: a pooler may send it to a server that does not know it, or
the project may have deallocated it. That error would end a caller's transaction, so statements are prepared only
outside of transactions, and only on connections that lead to one server. If it fails there all the same, before it has
changed anything, the plain one is sent.

The project's connection stays as it is: Django switches prepared statements off, and they are off for all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from django.db import DatabaseError

from djqueue.sql.connection import Connection

UNKNOWN_STATEMENT, DUPLICATE_STATEMENT = "26000", "42P05"  # of a server that other sessions use, too

# Whether a connection of the driver leads to one server, and has not lost a statement.
_reliable: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def fetch(database: Connection, sql: str, params: Sequence[Any]) -> list[Any]:
    """Run a statement whose rows end with pg_backend_pid(), and return the rows; prepare it where that is safe."""
    if not _may_prepare(database):
        return database.fetch(sql, params)
    with database.connection.cursor() as cursor:
        driver = database.connection.connection
        if _reliable.get(driver) and _is_djangos(cursor.cursor):
            cursor.cursor = _preparing_cursor()(driver)
            try:
                cursor.execute(sql, params)
                return cursor.fetchall()  # type: ignore[no-any-return]
            except DatabaseError as error:
                if getattr(error.__cause__, "sqlstate", None) not in (UNKNOWN_STATEMENT, DUPLICATE_STATEMENT):
                    raise
                _reliable[driver] = False
    rows = database.fetch(sql, params)
    if driver is database.connection.connection and driver not in _reliable:
        _reliable[driver] = rows[0][-1] == driver.info.backend_pid  # a pooler makes up its own
    return rows


def _may_prepare(database: Connection) -> bool:
    """Return whether an error would end no transaction, and the project has not chosen when to prepare."""
    connection = database.connection
    return not (
        database.in_caller_transaction()
        or connection.queries_logged  # Django reads the text that was sent from its own kinds of cursors
        or "prepare_threshold" in connection.settings_dict["OPTIONS"]
    )


def _is_djangos(cursor: Any) -> bool:
    """Return whether this is a cursor of psycopg 3 as Django makes it: tools that trace statements have their own."""
    return hasattr(cursor, "connection") and type(cursor).__module__ == "django.db.backends.postgresql.base"


@cache
def _preparing_cursor() -> Any:
    """Return the class of a cursor that prepares its statement; made late, because it needs psycopg."""
    import psycopg

    class PreparingCursor(psycopg.Cursor[Any]):
        format = psycopg.pq.Format.BINARY

        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            usual, self.connection.prepare_threshold = self.connection.prepare_threshold, 0
            try:
                return super().execute(query, params, prepare=True, **options)
            finally:
                self.connection.prepare_threshold = usual

    return PreparingCursor
