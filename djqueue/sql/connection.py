"""Send statements of bounded size over one connection, read their rows, and retry transactions that conflict."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from django.db import DataError, IntegrityError, OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from djqueue.conf import config

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound="Connection")

# Conflicts with other transactions are transient: ten tries span about three seconds.
CONFLICT_TRIES = 10

# Seconds that the request to cancel a statement may take to be sent.
INTERRUPT_WITHIN = 3

# Rows of values in one statement: SQLite accepts 32,766 parameters.
ROWS_AT_ONCE = 1000

# Ids in one statement.
IDS_AT_ONCE = 10_000

# Eight megabytes at most, as four bytes are the longest UTF-8 form: half of MariaDB's default max_allowed_packet.
CHARACTERS_AT_ONCE = 2_000_000


class LockTimeout(Exception):
    """Another transaction has kept a lock for too long; the transaction must be rolled back."""


def own_transaction(work: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[C, P], T]:
    """Run a method of a connection, or a function that takes one first, as `Connection.own_transaction` does."""

    @wraps(work)
    def in_own_transaction(database: C, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return database.own_transaction(lambda: work(database, *args, **kwargs))

    return in_own_transaction


class Connection(ABC):
    """One database connection of Django's, with the values and the transactions that djqueue needs."""

    skip_conflict_sql = "ON CONFLICT DO NOTHING"  # ends an INSERT that must not raise for a row that is there

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection
        self.alias = connection.alias
        self.notify = config().notify

    def execute(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run a statement and return the number of rows that it changed."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            return int(cursor.rowcount)

    def fetch(self, sql: str, params: Sequence[Any] = ()) -> list[Any]:
        """Run a statement and return its rows."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            rows: list[Any] = cursor.fetchall()
            return rows

    def fetch_soon(self, sql: str, params: Sequence[Any] = ()) -> list[Any]:
        """Run a statement in a transaction of djqueue's own, but raise LockTimeout if it waits for a lock for long."""
        return self.fetch(sql, params)

    # Values

    def adapt(self, value: Any) -> Any:
        """Return a value as the database's driver accepts it."""
        return value

    def instant(self, value: Any) -> Any:
        """Return an aware datetime, or None, from what the driver returned."""
        return value

    def uuid(self, value: Any) -> UUID:
        """Return a UUID from what the driver returned."""
        return value  # type: ignore[no-any-return]

    @abstractmethod
    def now(self) -> datetime:
        """Read the clock that decides."""

    @abstractmethod
    def now_sql(self) -> str:
        """Return the present as SQL; all instants of one statement are counted from here."""

    @abstractmethod
    def later_sql(self, seconds: float) -> str:
        """Return the instant so many seconds from now as SQL."""

    def text_sql(self, instant: str) -> str:
        """Return an instant in the form that is read fastest if many rows have the same; `instant` reads it."""
        return instant

    def on_conflict_sql(self, key: str) -> str:
        """Return the start of the clause that updates the row which holds the key, instead of inserting."""
        return f"ON CONFLICT {key} DO UPDATE SET"

    def new_sql(self, column: str) -> str:
        """Return the value that would have been inserted, for use in that clause."""
        return f"excluded.{column}"

    def upsert_sql(self, key: str, columns: Sequence[str]) -> str:
        """Return the clause that writes the given columns to the row that holds the key, instead of inserting."""
        return f"{self.on_conflict_sql(key)} {', '.join(f'{name} = {self.new_sql(name)}' for name in columns)}"

    # Transactions

    def in_caller_transaction(self) -> bool:
        """Return whether the caller has opened a transaction, or switched autocommit off."""
        connection = self.connection
        if connection.connection is None:  # asking must not connect
            return connection.in_atomic_block or not connection.settings_dict["AUTOCOMMIT"]
        return connection.in_atomic_block or not connection.autocommit

    def own(self, work: Callable[[], T]) -> T:
        """Run one statement, and retry it while it conflicts with other transactions; never inside a caller's."""
        if self.in_caller_transaction():
            return work()
        for tried in range(1, CONFLICT_TRIES + 1):
            try:
                return work()
            except OperationalError as error:
                if tried == CONFLICT_TRIES or not self.is_conflict(error):
                    raise
                time.sleep(random.uniform(0, 0.01 * 2 ** min(tried, 6)))
        raise AssertionError("unreachable")

    def own_transaction(self, work: Callable[[], T]) -> T:
        """Run several statements as a transaction of their own, retried while it conflicts, or as part of the caller's.

        The decorator of the same name does this to a whole method.
        """
        return self.own(lambda: self.in_transaction(work))

    def in_transaction(self, work: Callable[[], T]) -> T:
        """Run several statements as a transaction of their own, without retries, or as part of the caller's."""
        if self.in_caller_transaction():
            return work()
        with self.begin():
            return work()

    @contextmanager
    def begin(self) -> Iterator[None]:
        """Open a transaction that suits short queue work."""
        with transaction.atomic(using=self.alias):
            yield

    def session_id(self) -> int | None:
        """Return how the server knows this connection, if `interrupt` needs it; called by the connection's thread."""
        return None

    def interrupt(self, session_id: int | None) -> None:  # noqa: B027 - SQLite has no server that could be asked
        """Ask the server to cancel the statement that this connection waits for; called by another thread.

        Raise if the server cannot be reached.
        """

    # Errors

    @abstractmethod
    def is_conflict(self, error: OperationalError) -> bool:
        """Return whether the database asks for the transaction to be run again."""

    def is_refusal(self, error: Exception) -> bool:
        """Return whether a statement failed because of its values, and would fail with them again."""
        return isinstance(error, DataError | IntegrityError | UnicodeError)

    def is_too_large(self, error: Exception, size: int) -> bool:
        """Return whether the connection was lost because a statement of so many bytes exceeds the server's limit."""
        return False


def batches_of(items: Iterable[T], size: Callable[[T], int], rows: int) -> Iterator[list[T]]:
    """Split items into lists of at most `rows`, each small enough for one statement. A large item is alone.

    `size` returns the characters that an item adds to the statement, without those that are bounded anyway.
    """
    part: list[T] = []
    total = 0
    for item in items:
        characters = size(item)
        if part and (len(part) == rows or total + characters > CHARACTERS_AT_ONCE):
            yield part
            part, total = [], 0
        part.append(item)
        total += characters
    if part:
        yield part


def slices_of(values: Sequence[T], rows: int) -> Iterator[Sequence[T]]:
    """Split short values, such as ids, into slices of at most `rows`."""
    for start in range(0, len(values), rows):
        yield values[start : start + rows]
