"""The databases of the systems on the server, and what the server counts."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

from .processes import cpu_of_tree


@dataclass(frozen=True)
class Counts:
    """What the server has counted so far; None where it cannot."""

    wal: int
    commits: int
    statements: int | None
    claims: int | None
    cpu: float | None

    def __sub__(self, before: Counts) -> Counts:
        pairs = zip(astuple(self), astuple(before), strict=True)
        return Counts(*(None if now is None or was is None else now - was for now, was in pairs))


class Database:
    """The database of one system."""

    def __init__(self, server: str, system: str) -> None:
        self.name = f"compare_{system.replace('-', '_')}_{os.getpid()}"
        self.server = server
        self.url = urlunsplit(urlsplit(server)._replace(path=f"/{self.name}"))

    def create(self) -> None:
        self.drop()
        self._server(f"CREATE DATABASE {self.name}")
        with psycopg.connect(self.url, autocommit=True) as connection, suppress(psycopg.Error):
            connection.execute("CREATE EXTENSION pg_stat_statements")

    def drop(self) -> None:
        self._server(f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)")

    def tidy(self) -> None:
        """Vacuum, and make a checkpoint, so that what was done before costs the next run nothing."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            with suppress(psycopg.errors.InsufficientPrivilege):
                connection.execute("CHECKPOINT")

    def count_statements(self, on: bool) -> None:
        """Let pg_stat_statements count the statements of connections that are made from now on."""
        with suppress(psycopg.Error):
            self._server(f"ALTER DATABASE {self.name} SET pg_stat_statements.track = {'top' if on else 'none'}")

    def counts(self) -> Counts:
        """Read the counters. Those of a connection are complete once it is closed, or has been idle for a second."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            wal = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
            commits = connection.execute(
                "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone()
            statements = claims = None
            with suppress(psycopg.Error):
                statements, claims = connection.execute(
                    "SELECT coalesce(sum(calls), 0), coalesce(sum(calls) FILTER (WHERE query ~* 'skip locked'), 0) "
                    "FROM pg_stat_statements JOIN pg_database d ON d.oid = dbid WHERE d.datname = current_database()"
                ).fetchone()
            return Counts(
                int(wal[0]),
                int(commits[0]),
                None if statements is None else int(statements),
                None if claims is None else int(claims),
                self._cpu(connection.info.backend_pid),
            )

    def multiply(self, seed: int, factor: int) -> None:
        """Add so many copies of all rows, in tables that have at least as many rows as there are seeds.

        The key of a copy is generated: by the default of its column, or as a random UUID.
        """
        with psycopg.connect(self.url, autocommit=True) as connection:
            for (table,) in connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'django_migrations'"
            ).fetchall():
                rows = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()
                if rows and rows[0] >= seed:
                    connection.execute(copies(connection, table), [factor])
            connection.execute("VACUUM ANALYZE")

    def _cpu(self, backend: int) -> float | None:
        """Return the CPU time of all processes of the server, if it runs on this machine."""
        try:
            if Path(f"/proc/{backend}/comm").read_text().strip() not in ("postgres", "postmaster"):
                return None
            parent = Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()[1]
            return cpu_of_tree(int(parent))
        except OSError:
            return None

    def _server(self, sql: str) -> None:
        with psycopg.connect(self.server, autocommit=True) as connection:
            connection.execute(sql)


COLUMNS = """
    SELECT quote_ident(a.attname), a.attnum = ANY(coalesce(i.indkey::int2[], '{}')), format_type(a.atttypid, null)
    FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
    WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
"""


def copies(connection: psycopg.Connection, table: str) -> str:
    """Return the statement that copies all rows of a table with new keys, %s times."""
    columns = {}
    for name, is_key, kind in connection.execute(COLUMNS, [f'"{table}"']).fetchall():
        if not is_key:
            columns[name] = f"t.{name}"
        elif kind == "uuid":
            columns[name] = "gen_random_uuid()"
    return (
        f'INSERT INTO "{table}" ({", ".join(columns)}) SELECT {", ".join(columns.values())} '
        f'FROM "{table}" t CROSS JOIN generate_series(1, %s)'
    )
