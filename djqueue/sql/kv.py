"""Keys and values, the same on every database. An expired key counts as absent."""

from __future__ import annotations

from django.db import IntegrityError

from .connection import own_transaction
from .contract import Statements


def get(database: Statements, key: str) -> str | None:
    rows = database.fetch(f"SELECT value FROM djqueue_kv WHERE {_is_there(database)}", [key])
    return rows[0][0] if rows else None


def put(database: Statements, key: str, value: str, expires_in: float | None) -> None:
    now = database.now_sql()
    expiry = "NULL" if expires_in is None else database.later_sql(expires_in)
    column = _column(database)
    conflict = database.upsert_sql(f"({column})", ["value", "updated_at", "expires_at"])
    sql = (
        f"INSERT INTO djqueue_kv ({column}, value, updated_at, expires_at) VALUES (%s, %s, {now}, {expiry}) {conflict}"
    )
    database.own(lambda: database.execute(sql, [key, value]))


def delete(database: Statements, key: str) -> bool:
    """Delete the key, and return whether it existed."""
    return bool(database.own(lambda: database.execute(f"DELETE FROM djqueue_kv WHERE {_is_there(database)}", [key])))


def replace(database: Statements, key: str, old: str, new: str) -> bool:
    """Write the value if it is still the old one, and return whether it was. The expiry stays."""
    change = f"value = %s, updated_at = {database.now_sql()}"
    sql = f"UPDATE djqueue_kv SET {change} WHERE value = %s AND {_is_there(database)}"
    return bool(database.own(lambda: database.execute(sql, [new, old, key])))


def remove(database: Statements, key: str, old: str) -> bool:
    """Delete the key if its value is still the old one, and return whether it was."""
    sql = f"DELETE FROM djqueue_kv WHERE value = %s AND {_is_there(database)}"
    return bool(database.own(lambda: database.execute(sql, [old, key])))


@own_transaction
def create(database: Statements, key: str, value: str) -> bool:
    """Write the value if the key is absent, expired or null, and return whether it was."""
    column = _column(database)
    now = database.now_sql()
    database.execute(f"DELETE FROM djqueue_kv WHERE {column} = %s AND (value = 'null' OR expires_at <= {now})", [key])
    sql = f"INSERT INTO djqueue_kv ({column}, value, updated_at) VALUES (%s, %s, {now}) {database.skip_conflict_sql}"
    try:
        return bool(database.execute(sql, [key, value]))
    except IntegrityError:
        return False  # on MariaDB, which rolls back the statement alone


def _column(database: Statements) -> str:
    return database.connection.ops.quote_name("key")


def _is_there(database: Statements) -> str:
    return f"{_column(database)} = %s AND (expires_at IS NULL OR expires_at > {database.now_sql()})"
