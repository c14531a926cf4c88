"""Settle what a process held that is gone: what it ran is blamed, what it only held is not."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from djqueue import retries
from djqueue.conf import config
from djqueue.records import Settlement, waited
from djqueue.retries import NoRetry
from djqueue.sql import statements
from djqueue.states import Outcome, Verdict

from . import announce
from .failure import Failure
from .settle import retry_policy

if TYPE_CHECKING:
    from djqueue.models import Job


def recover(held: Collection[tuple[UUID, UUID]], blamed: Collection[UUID], reason: str, *, crashed: bool) -> int:
    """Fail the blamed jobs for the reason and release the others; returns how many were still held by these claims.

    `crashed` when nobody knows which of the blamed has done it: each of them is next run alone.
    """
    from djqueue.models import Job

    if not held:
        return 0
    database = statements()
    found = {row.id: row for row in Job.objects.using(database.alias).filter(id__in=[job for job, _ in held])}
    rows = [row for job, token in held if (row := found.get(job)) is not None and row.token == token]
    if not rows:
        return 0
    now = database.now()
    items = [
        blame(row, Verdict.NACK, reason, now, back_off=True, crashed=crashed) if row.id in blamed else _released(row)
        for row in rows
    ]
    answers = database.settle(items)
    for row, item, answer in zip(rows, items, answers, strict=True):
        announce.reaped(row, item, answer)
    return sum(answer.outcome != Outcome.LOST for answer in answers)


def _released(row: Job) -> Settlement:
    assert row.token is not None
    return Settlement(id=row.id, token=row.token, verdict=Verdict.RELEASE)


def blame(
    row: Job, verdict: Verdict, reason: str, now: datetime, *, back_off: bool = False, crashed: bool = False
) -> Settlement:
    """A failed attempt of somebody who cannot settle it himself."""
    assert row.token is not None
    assert row.claimed_at is not None
    policy = retry_policy(row.retry, row.task, row.queue)
    held_for = (now - row.claimed_at).total_seconds()
    return Settlement(
        id=row.id,
        token=row.token,
        verdict=verdict,
        keep_done=config().keep_done_for(row.queue) > 0,
        error=reason,
        entry=Failure(reason).entry(at=now, attempt=row.attempts, worker=row.worker, duration=held_for),
        delay=retries.spread_delay(policy, row.attempts, config().backoff_jitter) if back_off else 0.0,
        final=isinstance(policy, NoRetry),
        crashed=crashed,
        wait=waited(row.run_at, row.enqueued_at, row.claimed_at),
        run=held_for,
    )
