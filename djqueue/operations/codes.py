"""The codes of the findings. docs/reference/doctor.md has a section for each."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    # Found by `attention`, which is cheap enough for the overview.
    NO_WORKER = "no_worker"  # jobs are due in a queue that no live worker consumes
    UNKNOWN_TASKS = "unknown_tasks"  # jobs name a task that workers do not have
    DEATHS_RISING = "deaths_rising"  # more jobs of a queue became dead than usual
    SCHEDULE_DISABLED = "schedule_disabled"  # a schedule was disabled because of a problem
    LOOP_STALLED = "loop_stalled"  # a loop of a live worker has had no good turn for long
    OLDEST_TOO_OLD = "oldest_too_old"  # the oldest pending job of a queue waits much longer than usual
    WORKER_LOST = "worker_lost"  # a worker disappeared without saying that it exits
    LONG_TRANSACTION = "long_transaction"  # PostgreSQL: something holds back the removal of dead rows
    PAUSED_QUEUE = "paused_queue"  # jobs wait in a paused queue

    # Found by the doctor alone.
    SYSTEM_CHECK = "system_check"  # a message of Django's system checks
    UNREACHABLE = "unreachable"  # the database does not answer
    MIGRATION_MISSING = "migration_missing"  # a migration is not applied, or a table does not exist
    INDEX_MISSING = "index_missing"
    INDEX_INVALID = "index_invalid"  # PostgreSQL: an index that was not built to its end
    INDEX_UNEXPECTED = "index_unexpected"  # an index that no migration of djqueue has created
    CLOCK_SKEW = "clock_skew"  # the clocks of this host and of the database server differ
    DEAD_ROWS = "dead_rows"  # PostgreSQL: a table has many dead rows, and is not vacuumed
    LISTEN_DEAF = "listen_deaf"  # PostgreSQL: notifications do not arrive
    SQLITE_JOURNAL = "sqlite_journal"  # SQLite: the file is not in WAL mode
    MYSQL_ISOLATION = "mysql_isolation"  # MariaDB: transactions are not READ COMMITTED
    MYSQL_PACKET = "mysql_packet"  # MariaDB: max_allowed_packet is too small for the largest payload
    CONNECTIONS = "connections"  # the server has not enough connections for the workers
    LONG_RUNNING = "long_running"  # a job has been running far longer than usual
    LEASES_EXPIRED = "leases_expired"  # no worker takes back jobs whose lease has expired
    RETENTION_LATE = "retention_late"  # rows are kept longer than the settings say
    COUNTS_NOT_MERGED = "counts_not_merged"  # the counts of past minutes are not rolled up
    CHECK_FAILED = "check_failed"  # the doctor could not look at something
