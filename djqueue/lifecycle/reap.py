"""Take back jobs whose lease ran out."""

from __future__ import annotations

from djqueue.sql import statements
from djqueue.states import Outcome, Status, Verdict

from . import announce
from .recover import blame

BATCH = 200
LEASE_EXPIRED = "lease expired"


def reap() -> int:
    """Give every job with `expiry <= now` back, or bury it when it has no attempt left; returns how many.

    The look and the act are two statements, so the second names the token that the first saw and checks the expiry
    again: a job that was renewed or settled in between is left alone.
    """
    from djqueue.models import Job

    database = statements()
    now = database.now()
    claimed = Job.objects.using(database.alias).filter(status=Status.CLAIMED.value).order_by("id")
    reaped = 0
    last = None
    while True:
        # Paged by id, so that rows which somebody has locked cannot hold up those behind them.
        page = claimed.filter(lease_expires_at__lte=now)
        rows = list((page if last is None else page.filter(id__gt=last))[:BATCH])
        if not rows:
            return reaped
        last = rows[-1].id
        items = [blame(row, Verdict.REAP, LEASE_EXPIRED, now) for row in rows]
        for row, item, answer in zip(rows, items, database.settle(items, reaping=True), strict=True):
            reaped += answer.outcome != Outcome.LOST
            announce.reaped(row, item, answer)
