"""Renew leases, and store the progress of jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from asgiref.sync import sync_to_async

from djqueue.conf import config
from djqueue.core import payload
from djqueue.core.durations import Duration, seconds
from djqueue.core.records import Renew, Renewed
from djqueue.exceptions import LeaseLost
from djqueue.sql import statements
from djqueue.waiting.wait import Deadline, refuse_transaction

if TYPE_CHECKING:
    from .claim import ClaimedJob

# Seconds between two polls for a cancel request, of a job that no worker process holds.
CANCEL_POLL = 0.2


def renew(job: ClaimedJob, duration: Duration | None = None) -> None:
    """Extend the lease from now, by default for the length that it was claimed for."""
    length = job.lease if duration is None else seconds(duration, "seconds")
    _write(job, Renew(id=job.id, token=job.token, lease=length))


def progress(job: ClaimedJob, done: float, total: float, message: str = "") -> None:
    """Store the progress of the job. Raise LeaseLost if the lease is lost."""
    _write(job, Renew(id=job.id, token=job.token, progress=encode_progress(done, total, message)))


def encode_progress(done: float, total: float, message: str) -> str:
    text = payload.encode({"done": done, "total": total, "message": message}, "progress")
    payload.check_size({"progress": text}, config().max_payload_size)
    return text


def renew_many(renewals: Sequence[Renew]) -> dict[tuple[UUID, UUID], Renewed | None]:
    """Extend many leases in one statement. None stands for a row that another transaction has locked."""
    if not renewals:
        return {}
    answers = statements().renew(renewals, wait=False)
    return {(item.id, item.token): answer for item, answer in zip(renewals, answers, strict=True)}


def look(claims: Sequence[tuple[UUID, UUID]]) -> dict[tuple[UUID, UUID], Renewed | None]:
    """Read which claims are still valid, and for which a cancel is requested, without writing a row."""
    from djqueue.models import Job

    if not claims:
        return {}
    rows = Job.objects.using(statements().alias).filter(id__in=[job for job, _ in claims])
    found = {
        (job, token): Renewed(expires_at, cancel_requested)
        for job, token, expires_at, cancel_requested in rows.values_list(
            "id", "token", "lease_expires_at", "cancel_requested"
        )
    }
    return {claim: found.get(claim, Renewed(None)) for claim in claims}


def wait_for_cancel(job: ClaimedJob, timeout: Duration | None = None) -> bool:
    """Poll the job's row until a cancel is requested or the timeout is reached; return whether it was."""
    deadline = Deadline(timeout)
    while not _read_cancel(job) and not deadline.is_over():
        refuse_transaction()
        time.sleep(deadline.remaining_up_to(_cancel_poll()))
    return job.cancel_requested


async def await_for_cancel(job: ClaimedJob, timeout: Duration | None = None) -> bool:
    """Async variant of `wait_for_cancel`."""
    deadline = Deadline(timeout)
    while not await sync_to_async(_read_cancel)(job) and not deadline.is_over():
        await sync_to_async(refuse_transaction)()
        await asyncio.sleep(deadline.remaining_up_to(_cancel_poll()))
    return job.cancel_requested


def _cancel_poll() -> float:
    return min(CANCEL_POLL, config().poll_interval)


def _read_cancel(job: ClaimedJob) -> bool:
    claim = (job.id, job.token)
    answer = look([claim])[claim]
    if answer is None or answer.expires_at is None:
        raise LeaseLost(f"The lease on job {job.id} is lost.")
    job.cancel_requested = answer.cancel_requested
    return job.cancel_requested


def _write(job: ClaimedJob, renewal: Renew) -> None:
    [answer] = statements().renew([renewal], wait=True)
    if answer is None or answer.expires_at is None:
        raise LeaseLost(f"The lease on job {job.id} is lost.")
    job.lease_expires_at = answer.expires_at
    job.cancel_requested = answer.cancel_requested
