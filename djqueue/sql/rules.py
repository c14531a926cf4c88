"""What a verdict means for a row that we hold: the rules that PostgreSQL's statements say in SQL."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime, timedelta
from typing import Any

from djqueue.models import DeadJob, DoneJob, Job, Throughput
from djqueue.payload import decode
from djqueue.records import Requeue, Settlement
from djqueue.states import Outcome, Status, Verdict

from .base import BUCKETS, KEPT, MAX_ERRORS, MAX_RETURNS, REVIVED


class Counts:
    """The Throughput rows of one settlement."""

    def __init__(self, now: datetime) -> None:
        self.minute = now.replace(second=0, microsecond=0)
        self.cells: dict[tuple[Any, ...], Throughput] = {}

    def cell(self, queue: str, task: str, wait_bucket: int = 0, run_bucket: int = 0) -> Throughput:
        key = (queue, task, wait_bucket, run_bucket)
        if key not in self.cells:
            self.cells[key] = Throughput(
                minute=self.minute, queue=queue, task=task, wait_bucket=wait_bucket, run_bucket=run_bucket
            )
        return self.cells[key]

    def add(self, row: Job, item: Settlement, outcome: Outcome) -> None:
        if outcome in (Outcome.SNOOZED, Outcome.RELEASED):
            return
        cell = self.cell(row.queue, row.task, bisect_right(BUCKETS, item.wait), bisect_right(BUCKETS, item.run))
        cell.done += outcome == Outcome.DONE
        cell.failed += bool(item.entry) and outcome != Outcome.CANCELLED
        cell.dead += outcome == Outcome.DEAD
        cell.cancelled += outcome == Outcome.CANCELLED
        cell.wait_sum += item.wait
        cell.run_sum += item.run


def expired(row: Job, now: datetime) -> bool:
    return row.lease_expires_at is not None and row.lease_expires_at <= now


def decide(row: Job, item: Settlement) -> Outcome:
    """What a verdict means for the row as it is now."""
    exhausted = row.attempts >= row.max_attempts
    match item.verdict:
        case Verdict.ACK:
            return Outcome.DONE
        case Verdict.CANCEL:
            return Outcome.CANCELLED
        case Verdict.DEAD_LETTER:
            return Outcome.DEAD
        case Verdict.SNOOZE:
            return Outcome.SNOOZED
        case Verdict.RELEASE:
            return Outcome.RELEASED
        case Verdict.REAP if not row.started and row.returns < MAX_RETURNS:
            return Outcome.RELEASED
        case Verdict.NACK if row.cancel_requested:
            return Outcome.CANCELLED
    return Outcome.DEAD if exhausted or item.final else Outcome.RETRYING


def give_back(row: Job, item: Settlement, outcome: Outcome, now: datetime) -> None:
    """Make a claimed row wait again."""
    if outcome == Outcome.RETRYING:
        record_failure(row, item, now)
    else:
        row.attempts -= 1
        row.worker_ids = row.worker_ids[:-1]
        if not row.started and row.attempts == 0:
            row.started_at = None
    if outcome != Outcome.RELEASED:
        row.run_at = now + timedelta(seconds=item.delay)
    row.status = Status.SCHEDULED.value if item.delay > 0 else Status.PENDING.value
    row.token = row.claimed_at = row.lease_expires_at = None
    row.worker = ""
    row.started = False
    row.returns += item.verdict == Verdict.REAP and outcome == Outcome.RELEASED
    if item.crashed:
        row.crashes += 1
    elif item.verdict in (Verdict.NACK, Verdict.SNOOZE) and not item.unknown:
        row.crashes = 0  # it came to its own end: the crash was not its doing
    if item.unknown:
        row.unknown_since = row.unknown_since or now
    elif outcome != Outcome.RELEASED:
        row.unknown_since = None


def record_failure(row: Job, item: Settlement, now: datetime) -> None:
    if not item.entry:
        return
    row.failed_at = now
    row.last_error = item.error
    # The row's text lengths are not at hand here: the encoded form of what was read stands in for them.
    size = len(Job._meta.get_field("errors").get_prep_value(row.errors))
    row.errors = [*(row.errors[1:] if size > MAX_ERRORS else row.errors), decode(item.entry)]


def waiting_status(run_at: datetime, now: datetime) -> str:
    return Status.PENDING.value if run_at <= now else Status.SCHEDULED.value


def _marked(errors: Any) -> Any:
    return [{"before_requeue": True} | error if isinstance(error, dict) else error for error in errors]


def revived(row: DeadJob, item: Requeue, now: datetime) -> Job:
    """A dead job as a new one under its id: the history of its errors stays, marked."""
    run_at = item.run_at or now
    return Job(
        **{name: getattr(row, name) for name in REVIVED},
        args=row.args if item.args is None else decode(item.args),
        kwargs=row.kwargs if item.kwargs is None else decode(item.kwargs),
        errors=_marked(row.errors),
        run_at=run_at,
        status=waiting_status(run_at, now),
    )


def kept(row: Job) -> dict[str, Any]:
    return {name: getattr(row, name) for name in KEPT}


def done(row: Job, item: Settlement, outcome: Outcome, now: datetime) -> DoneJob:
    result = None if item.result is None else decode(item.result)
    return DoneJob(**kept(row), status=outcome.value, completed_at=now, result=result)
