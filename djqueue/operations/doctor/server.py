"""The database server: its clock, and how many connections it accepts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime

from djqueue.core.durations import in_words
from djqueue.operations import summary
from djqueue.operations.codes import Code
from djqueue.operations.findings import Finding, Severity, Subject
from djqueue.operations.summary import WorkerSummary
from djqueue.operations.wording import counted
from djqueue.sql import Statements

SKEW = 1.0  # seconds
ROUND_TRIPS = 5
# Connections of a worker process beside those of its threads: claimer, completer and listener. A running coroutine that
# uses the ORM has one too, but how many will is not known.
PER_PROCESS = 3
# Connections of a supervisor: leases, periodic work, scheduler, listener, and the recovery of jobs after a crash.
PER_SUPERVISOR = 5
# Shares of the server's connections: what the workers may need, and what may be in use by all.
WORKERS_SHARE, USED_SHARE = 0.8, 0.9
# The limit for this user in this database, and the connections that are open.
POSTGRESQL_LIMIT = """
    SELECT LEAST(
               current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
               (SELECT NULLIF(datconnlimit, -1) FROM pg_database WHERE datname = current_database()),
               (SELECT NULLIF(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user)),
           (SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
"""
MYSQL_LIMIT = """
    SELECT IF(@@max_user_connections > 0, LEAST(@@max_connections, @@max_user_connections), @@max_connections),
           (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Threads_connected')
"""


def host_clock() -> datetime:
    """Read the clock of this host. Tests set another one."""
    return datetime.now(UTC)


def clocks(database: Statements) -> Iterator[Finding]:
    """Compare the clock of the server with that of this host, by the quickest of some round trips."""
    if database.connection.vendor == "sqlite":
        return  # the clock of the host is the clock that decides
    skew, uncertain = 0.0, math.inf
    for _ in range(ROUND_TRIPS):
        before, there, after = host_clock(), database.now(), host_clock()
        half = (after - before).total_seconds() / 2
        if half < uncertain:
            skew, uncertain = (there - before).total_seconds() - half, half
    if abs(skew) - uncertain > SKEW:
        yield Finding(
            code=Code.CLOCK_SKEW,
            severity=Severity.WARNING,
            text=f"The clock of the database server is {in_words(abs(skew))} {'ahead of' if skew > 0 else 'behind'} "
            "the clock of this host: jobs with a run_at of this host start at another time than expected.",
            remedy="Synchronise the clocks of both machines (NTP).",
            subject=Subject.DATABASE,
            key=database.alias,
        )


def connections(database: Statements) -> Iterator[Finding]:
    """Compare what the live workers need, and what is in use, with what the server accepts."""
    queries = {"postgresql": POSTGRESQL_LIMIT, "mysql": MYSQL_LIMIT}
    if (sql := queries.get(database.connection.vendor)) is None:
        return
    limit, used = map(int, database.fetch(sql)[0])
    workers = [row for row in summary.all_workers() if row.alive]
    need = needed(workers)
    if need > WORKERS_SHARE * limit or used > USED_SHARE * limit:
        yield Finding(
            code=Code.CONNECTIONS,
            severity=Severity.WARNING,
            text=f"The database server accepts {counted(limit, 'connection')}; {used:,} are open, and "
            f"{counted(len(workers), 'worker process', 'worker processes')} may open up to {need:,}.",
            remedy="Raise max_connections, start fewer processes or threads, or put a connection pooler before the "
            "server (with LISTEN_DATABASE on PostgreSQL).",
            subject=Subject.DATABASE,
            key=database.alias,
        )


def needed(workers: list[WorkerSummary]) -> int:
    """Return how many connections these processes and their supervisors open to the queue's database at most."""
    supervisors = {row.supervisor or row.identity for row in workers}
    return sum(row.threads + PER_PROCESS for row in workers) + PER_SUPERVISOR * len(supervisors)
