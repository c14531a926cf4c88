"""Keep leases alive, and tell how far a job is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from djqueue import payload
from djqueue.conf import config
from djqueue.durations import Duration, seconds
from djqueue.exceptions import LeaseLost
from djqueue.records import Renew, Renewal
from djqueue.sql import statements

if TYPE_CHECKING:
    from .claim import ClaimedJob


def renew(job: ClaimedJob, duration: Duration | None = None) -> None:
    """Extend the lease, counted from now; by the length that it was claimed for when none is given."""
    length = job.lease if duration is None else seconds(duration, "seconds")
    _write(job, Renew(id=job.id, token=job.token, lease=length))


def progress(job: ClaimedJob, done: float, total: float, message: str = "") -> None:
    """Write how far the job is, if it is still ours."""
    text = payload.encode({"done": done, "total": total, "message": message}, "progress")
    payload.check_size({"progress": text}, config().max_payload_size)
    _write(job, Renew(id=job.id, token=job.token, progress=text))


def renew_many(renewals: Sequence[Renew]) -> dict[tuple[UUID, UUID], Renewal | None]:
    """Extend many leases in one statement; None stands for a row that somebody has locked."""
    if not renewals:
        return {}
    answers = statements().renew(renewals, wait=False)
    return {(item.id, item.token): answer for item, answer in zip(renewals, answers, strict=True)}


def look(claims: Sequence[tuple[UUID, UUID]]) -> dict[tuple[UUID, UUID], Renewal | None]:
    """See which claims still hold, and which should be cancelled, without touching a row."""
    from djqueue.models import Job

    if not claims:
        return {}
    rows = Job.objects.using(config().database).filter(id__in=[job for job, _ in claims])
    found = {
        (job, token): Renewal(expires_at, cancel_requested)
        for job, token, expires_at, cancel_requested in rows.values_list(
            "id", "token", "lease_expires_at", "cancel_requested"
        )
    }
    return {claim: found.get(claim, Renewal(None)) for claim in claims}


def _write(job: ClaimedJob, renewal: Renew) -> None:
    [answer] = statements().renew([renewal], wait=True)
    if answer is None or answer.expires_at is None:
        raise LeaseLost(f"job {job.id} is no longer ours")
    job.lease_expires_at = answer.expires_at
    job.cancel_requested = answer.cancel_requested
