"""The databases on which the soak test runs, and the faults of each."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tests import postgres

from .proxy import Proxy

MYSQL = "DJQUEUE_TEST_MYSQL_URL"
AWAY = 60.0  # seconds after which a restarted server is given up


class Database:
    """A database in DATABASE_URL. The second half of its clients connects by `second_url`."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.second_url = ""

    def start(self) -> None:
        """Set DATABASE_URL; called before Django is set up."""
        raise NotImplementedError

    def faults(self) -> dict[str, Callable[[random.Random], str]]:
        """Return what can be done to the database; each returns a few words for the log."""
        return {}


class PostgreSQL(Database):
    def start(self) -> None:
        postgres.settings()
        if postgres.is_ours():
            folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="djqueue-soak-")))
            self.proxy = Proxy(folder)
            self.stack.callback(self.proxy.close)
            self.second_url = self.proxy.url

    def faults(self) -> dict[str, Callable[[random.Random], str]]:
        found: dict[str, Callable[[random.Random], str]] = {"sessions ended": self.end_sessions}
        if postgres.is_ours():
            found |= {
                "connections cut": self.cut,
                "fast restart": lambda rng: self.restart("fast"),
                "immediate restart": lambda rng: self.restart("immediate"),
            }
        return found

    def end_sessions(self, rng: random.Random) -> str:
        """End about half of the sessions."""
        sql = """
            SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
            ORDER BY pid
        """
        chosen = some([pid for (pid,) in query(sql)], rng)
        query("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) pid", [chosen])
        return f"{len(chosen)} sessions"

    def cut(self, rng: random.Random) -> str:
        self.proxy.cut()
        return f"{len(self.proxy.pairs)} connections"

    def restart(self, mode: str) -> str:
        from django.db import connection

        connection.close()
        started = time.monotonic()
        postgres.restart(mode)
        wait_until_available()
        return f"away for {time.monotonic() - started:.1f} s"


class MySQL(Database):
    def start(self) -> None:
        import MySQLdb

        if MYSQL not in os.environ:
            raise SystemExit(f"Set {MYSQL} to a MariaDB whose user may create databases: mysql://root@127.0.0.1/test")
        parts = urlsplit(os.environ[MYSQL])
        name = f"djqueue_soak_{os.getpid()}"
        os.environ["DATABASE_URL"] = urlunsplit(parts._replace(path=f"/{name}"))
        given = {"host": parts.hostname, "port": parts.port or 3306, "user": parts.username}

        def execute(sql: str) -> None:
            with closing(MySQLdb.connect(**given, password=parts.password or "")) as connection:
                connection.cursor().execute(sql)

        execute(f"CREATE DATABASE {name}")
        self.stack.callback(execute, f"DROP DATABASE {name}")

    def faults(self) -> dict[str, Callable[[random.Random], str]]:
        return {"sessions ended": self.end_sessions}

    def end_sessions(self, rng: random.Random) -> str:
        """Kill about half of the sessions of our own database; the server may have other users."""
        from django.db import OperationalError

        sql = (
            "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID() ORDER BY id"
        )
        chosen = some([number for (number,) in query(sql)], rng)
        for number in chosen:
            try:
                query("KILL %s", [number])
            except OperationalError as error:
                if error.args[0] != 1094:  # the session has ended meanwhile
                    raise
        return f"{len(chosen)} sessions"


class SQLite(Database):
    def start(self) -> None:
        folder = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="djqueue-soak-"))
        os.environ["DATABASE_URL"] = f"sqlite:///{folder}/soak.sqlite3"


DATABASES: dict[str, type[Database]] = {"postgresql": PostgreSQL, "mysql": MySQL, "sqlite": SQLite}


def query(sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall()) if cursor.description else []


def wait_until_available() -> None:
    from django.db import OperationalError, connection

    deadline = time.monotonic() + AWAY
    while True:
        try:
            query("SELECT 1")
            return
        except OperationalError:
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def some(sessions: list[int], rng: random.Random) -> list[int]:
    return rng.sample(sessions, (len(sessions) + 1) // 2)
