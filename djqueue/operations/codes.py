"""The codes of the findings. docs/doctor.md has a section for each."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    # Found by `attention`: cheap enough for the overview.
    NO_WORKER = "no_worker"  # jobs are due in a queue that no live worker consumes
    UNKNOWN_TASKS = "unknown_tasks"  # jobs name a task that workers do not have
    DEATHS_RISING = "deaths_rising"  # more jobs of a queue became dead than usual
    SCHEDULE_DISABLED = "schedule_disabled"  # a schedule was disabled because of a problem
    LOOP_STALLED = "loop_stalled"  # a loop of a live worker has had no good turn for long
    OLDEST_TOO_OLD = "oldest_too_old"  # the oldest pending job of a queue waits much longer than usual
    WORKER_LOST = "worker_lost"  # a worker disappeared without saying that it exits
    LONG_TRANSACTION = "long_transaction"  # PostgreSQL: a session holds back the cleaning of dead rows
    PAUSED_QUEUE = "paused_queue"  # jobs wait in a paused queue
