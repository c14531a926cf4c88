"""Key and value, the same on every database: an expired key is absent."""

from __future__ import annotations

from django.db import IntegrityError

from .base import Statements


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
    """Delete the key; False when it was absent."""
    return bool(database.own(lambda: database.execute(f"DELETE FROM djqueue_kv WHERE {_is_there(database)}", [key])))


def replace(database: Statements, key: str, old: str, new: str) -> bool:
    """Write the value if it is still the old one; its expiry stays."""
    change = f"value = %s, updated_at = {database.now_sql()}"
    sql = f"UPDATE djqueue_kv SET {change} WHERE value = %s AND {_is_there(database)}"
    return bool(database.own(lambda: database.execute(sql, [new, old, key])))


def remove(database: Statements, key: str, old: str) -> bool:
    """Delete the key if its value is still the old one."""
    sql = f"DELETE FROM djqueue_kv WHERE value = %s AND {_is_there(database)}"
    return bool(database.own(lambda: database.execute(sql, [old, key])))


def create(database: Statements, key: str, value: str) -> bool:
    """Write the value if the key is absent, expired or null."""

    def work() -> bool:
        column = _column(database)
        now = database.now_sql()
        database.execute(
            f"DELETE FROM djqueue_kv WHERE {column} = %s AND (value = 'null' OR expires_at <= {now})", [key]
        )
        conflict = "" if database.connection.vendor == "mysql" else "ON CONFLICT DO NOTHING"
        sql = f"INSERT INTO djqueue_kv ({column}, value, updated_at) VALUES (%s, %s, {now}) {conflict}"
        try:
            return bool(database.execute(sql, [key, value]))
        except IntegrityError:
            return False  # on MariaDB, where the statement alone is undone

    return database.own_transaction(work)


def _column(database: Statements) -> str:
    return database.connection.ops.quote_name("key")


def _is_there(database: Statements) -> str:
    return f"{_column(database)} = %s AND (expires_at IS NULL OR expires_at > {database.now_sql()})"
