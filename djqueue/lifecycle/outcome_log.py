"""Log the outcome of an attempt: one line, without the arguments of the job. docs/guides/worker.md lists the lines."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from djqueue.core import registry
from djqueue.core.log import logger
from djqueue.core.payload import decode
from djqueue.core.records import Settled, Settlement
from djqueue.states import Outcome

LINE = "%s job=%s task=%s queue=%s attempt=%d/%d seconds=%.3f%s"
LONGEST_ERROR = 200
LEVELS = {Outcome.DEAD: logging.ERROR, Outcome.RETRYING: logging.WARNING, Outcome.LOST: logging.WARNING}
EVENTS = {Outcome.RETRYING: "failed", Outcome.LOST: "lease lost, outcome discarded"}


# A job, its attempt, its settlement, the answer to that, the seconds that it ran, and what its task raised.
Line = tuple[Any, int, Settlement, Settled, float, BaseException | None]


def write_all(lines: Iterable[Line]) -> None:
    """Log what became of several jobs; those that are done by a single call, because most of them are."""
    done, writes_done = [], logger.isEnabledFor(logging.INFO)
    for job, attempt, item, answer, seconds, error in lines:
        if answer.outcome is Outcome.DONE:
            if writes_done:
                done.append((Outcome.DONE, job.id, job.task, job.queue, attempt, job.max_attempts, seconds, ""))
        else:
            write(job, attempt, item, answer, seconds, error)
    logger.info_all(LINE, done)


def write(
    job: Any, attempt: int, item: Settlement, answer: Settled, seconds: float, error: BaseException | None = None
) -> None:
    """Log what became of a job, which is anything that has its id, task, queue and max_attempts.

    `error` is what its task raised; it is not known if the process died, or if the outcome has another cause.
    """
    outcome = answer.outcome
    level = LEVELS.get(outcome, logging.INFO)
    if not logger.isEnabledFor(level):
        return
    event = "put back" if item.unknown and outcome is Outcome.SNOOZED else EVENTS.get(outcome, outcome)
    details = (event, job.id, job.task, job.queue, attempt, job.max_attempts, seconds)
    if outcome is Outcome.DONE:
        logger.info(LINE, *details, "")
        return
    failure = decode(item.entry) if item.entry else {}
    more = _more(item, outcome, failure)
    if outcome is Outcome.DEAD:
        logger.failure(LINE, *details, more, error=loggable(job.task, error), text=failure.get("traceback", ""))
    else:
        logger.log(level, LINE, *details, more)


def loggable(task: str, error: BaseException | None) -> BaseException | None:
    """Return the exception for handlers that read it; None if the task has sensitive arguments.

    Its message and the variables of its frames may contain them. The text that was stored has them masked.
    """
    return None if registry.options(task).sensitive else error


def _more(item: Settlement, outcome: Outcome, failure: dict[str, Any]) -> str:
    more = f" retry_in={item.delay:.1f}s" if outcome in (Outcome.RETRYING, Outcome.SNOOZED) else ""
    if exception := failure.get("exception"):
        more += f" exception={exception}"
    if item.error:
        more += f" error={item.error.splitlines()[0]!r:.{LONGEST_ERROR}}"
    return more
