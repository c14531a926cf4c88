"""Why a job is not running, or what became of it: one code and one sentence with the numbers and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from djqueue.core.async_twins import twin

# This module is imported before the apps are ready: what needs the models is imported by the functions.


class Code(StrEnum):
    """Where a job is, or why it does not run. docs/howto/why_is_my_job_not_running.md describes each."""

    # No live, done or dead job has this id.
    NOT_FOUND = "not_found"
    # Finished.
    DONE = "done"
    CANCELLED = "cancelled"
    DEAD = "dead"
    # Held by a worker.
    CLAIMED = "claimed"
    # Waits for its time.
    SCHEDULED = "scheduled"
    RETRY = "retry"
    # Due, and cannot run now.
    PAUSED = "paused"
    NO_WORKER = "no_worker"
    UNKNOWN_TASK = "unknown_task"
    # Blocked: its limit key has no permit for it, or is held. A key that is held has the second code alone.
    LIMIT = "limit"
    LIMIT_HELD = "limit_held"
    CONCURRENCY = "concurrency"
    # Can run: waits for its turn.
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job is not running, or what became of it."""

    code: Code
    text: str

    def __str__(self) -> str:
        return self.text


def explain(id: UUID | str) -> Explanation:  # noqa: A002 - the contract's name
    """Explain why a job is not running, or what became of it. At most six statements, each of bounded cost.

    If several reasons hold, the first one in the order of `Code` is given: it must be removed before the others matter.
    A malformed id is not found.
    """
    from djqueue.operations.situation import find

    from . import reasons

    found = find(id)
    return reasons.not_found(id) if found is None else reasons.of(found)


aexplain = twin(explain)
