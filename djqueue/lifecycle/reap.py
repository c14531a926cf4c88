"""Take back jobs whose lease has expired."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from djqueue.core.log import logger
from djqueue.sql import statements
from djqueue.states import Outcome, Status, Verdict

from . import announce, outcome, outcome_log
from .admit import hand_on
from .crash import blame, light_rows

if TYPE_CHECKING:
    from djqueue.models import Job

BATCH = 200
LEASE_EXPIRED = "lease expired"


def any_expired() -> bool:
    """Return whether there is a job to reap."""
    database = statements()
    sql = f"SELECT 1 FROM djqueue_job WHERE status = 'claimed' AND lease_expires_at <= {database.now_sql()}"
    sql += " AND token IS NOT NULL LIMIT 1"
    return bool(database.fetch(sql))


def reap(may_act: Callable[[], bool] = lambda: True) -> int:
    """Retry every job with `expiry <= now`, or make it dead if no attempt is left; return how many.

    Reading and settling are two statements, so the second names the token that the first read and compares the expiry
    with the clock of the first: a job that was renewed, begun or settled in between is left alone, however long the
    second had to wait. `may_act` is called between them.
    """
    database = statements()
    now = database.now()
    claimed = light_rows().filter(status=Status.CLAIMED.value).order_by("id")
    reaped = 0
    last = None
    while True:
        # Paged by id, so that locked rows cannot hold up those behind them.
        page = claimed.filter(lease_expires_at__lte=now)
        rows = list((page if last is None else page.filter(id__gt=last))[:BATCH])
        if not rows or not may_act():
            return reaped
        last = rows[-1].id
        rows = [row for row in rows if _has_token(row)]
        items = [blame(row, Verdict.REAP, LEASE_EXPIRED, now) for row in rows]
        decisions = [outcome.decide(item) for item in items]
        answers = database.settle(decisions, expired_at=now, wait=False) if items else []
        for row, item, answer in zip(rows, items, answers, strict=True):
            if answer.outcome not in (Outcome.LOST, Outcome.LOCKED):
                reaped += 1
                outcome_log.write(row, row.attempts, item, answer, item.run)
                announce.reaped(row, item, answer)
        hand_on([row.limit_key for row in rows])


def _has_token(row: Job) -> bool:
    """Return False, and log it, for a row that was written by hand: no statement can name its claim."""
    if row.token is None:
        logger.warning("claimed job without a token, not reaped job=%s task=%s", row.id, row.task)
    return row.token is not None
