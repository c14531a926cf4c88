"""Settle the jobs of a process that has exited: those that ran have failed, the others are released."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from djqueue.conf import config
from djqueue.core import retries
from djqueue.core.log import logger
from djqueue.core.options import resolve
from djqueue.core.records import Settled, Settlement, waited
from djqueue.sql import statements
from djqueue.states import Outcome, Status, Verdict

from . import announce, outcome, outcome_log
from .admit import hand_on
from .failure import Failure
from .settle import retry_policy, settle_many

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from djqueue.models import Job


@dataclass(frozen=True, slots=True)
class Left:
    """A job that a process held when it exited, and what is known of it."""

    id: UUID
    token: UUID
    blamed: bool = False  # the job was running, and its attempt has failed
    outcome: Settlement | None = None  # the attempt had ended, but was not settled yet
    delay: float = 0.0  # seconds until the job may be claimed again, if it is released


def recover(left: Sequence[Left], reason: str, *, crashed: bool) -> list[Left]:
    """Settle the jobs whose attempts had ended, fail the blamed ones with the reason, and release the others.

    Return those that another transaction has locked, to be tried again. If `crashed`, each blamed job may
    have been the cause and runs alone next time.
    """
    if not left:
        return []
    database = statements()
    found = {row.id: row for row in light_rows().filter(id__in=[one.id for one in left])}
    held = [(one, row) for one in left if (row := found.get(one.id)) is not None and row.token == one.token]
    if not held:
        return []
    now = database.now()
    items = [one.outcome or _verdict(one, row, reason, now, crashed) for one, row in held]
    answers = settle_many(items)
    locked = []
    for (one, row), item, answer in zip(held, items, answers, strict=True):
        if isinstance(answer, Exception):
            # Only the class of the error, whose message may contain the data that was refused.
            details = (one.id, row.task, type(answer).__name__)
            logger.error("outcome rejected by the database, left to the reaper job=%s task=%s exception=%s", *details)
        elif answer.outcome == Outcome.LOCKED:
            locked.append(one)
        else:
            outcome_log.write(row, row.attempts, item, answer, item.run)
            announce.reaped(row, item, answer)
    hand_on([row.limit_key for _, row in held])
    return locked


def release_claims(tokens: Sequence[UUID], known: Collection[UUID] = ()) -> int:
    """Release the jobs of claims whose response was lost, none of which has started, and return how many.

    Jobs that are `known` to have arrived may have started, and are left unchanged.
    """
    # The status is not a parameter: a plan that is kept could not use the index of claimed jobs (worker/plans.py).
    claimed = light_rows().extra(where=[f"status = '{Status.CLAIMED.value}'"])
    rows = claimed.filter(token__in=tokens).values_list("id", "token")
    lost = [(job, token) for job, token in rows if token is not None and job not in known]
    items = [Settlement(id=job, token=token, verdict=Verdict.RELEASE) for job, token in lost]
    answers = settle_many(items)
    return sum(isinstance(answer, Settled) and answer.outcome == Outcome.RELEASED for answer in answers)


def light_rows() -> QuerySet[Job]:
    """Return live jobs without the columns that may be large: `announce` reads the job again if they are needed.

    If a queue does not keep finished jobs, there may be nothing to read again, so all columns are read now.
    """
    from djqueue.models import Job

    rows = Job.objects.using(config().database)
    all_keep = all([config().keep_done > 0, *config().queues_that_keep().values()])
    return rows.defer("args", "kwargs", "headers", "errors", "progress") if all_keep else rows


def _verdict(one: Left, row: Job, reason: str, now: datetime, crashed: bool) -> Settlement:
    if one.blamed:
        return blame(row, Verdict.NACK, reason, now, back_off=True, crashed=crashed)
    return Settlement(id=one.id, token=one.token, verdict=Verdict.RELEASE, delay=one.delay)


def blame(
    row: Job, verdict: Verdict, reason: str, now: datetime, *, back_off: bool = False, crashed: bool = False
) -> Settlement:
    """Return the settlement of an attempt that failed with its process, or whose lease has expired."""
    assert row.token is not None
    claimed_at = row.claimed_at or now  # a row that was written by hand may lack it
    policy = retry_policy(row.retry, row.task, row.queue)
    held_for = (now - claimed_at).total_seconds()
    return Settlement(
        id=row.id,
        token=row.token,
        verdict=verdict,
        keep_done=resolve("keep_done", row.queue) > 0,
        error=reason,
        entry=Failure(reason).entry(at=now, attempt=row.attempts, worker=row.worker, duration=held_for),
        delay=retries.spread_delay(policy, row.attempts, config().backoff_jitter) if back_off else 0.0,
        final=outcome.is_final(policy, row.attempts, row.max_attempts),
        returned=verdict is Verdict.REAP and outcome.is_returned(row),
        crashed=crashed,
        wait=waited(row.run_at, row.enqueued_at, claimed_at),
        run=held_for,
    )
