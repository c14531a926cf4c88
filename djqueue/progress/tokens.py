"""Tokens that allow their holder one thing with one job, for some time."""

from __future__ import annotations

import time
from uuid import UUID

from django.core.signing import BadSignature, Signer

from djqueue.core.durations import Duration, seconds

STATUS = "status"
CANCEL = "cancel"


def sign(job: UUID, purpose: str, max_age: Duration) -> str:
    expires = int(time.time() + seconds(max_age, "max_age"))
    return _signer(purpose).sign(f"{job.hex}.{expires}")


def read(token: str, purpose: str) -> UUID | None:
    """Return the job of a token; None if it is forged, has expired, or was signed for another purpose."""
    try:
        job, _, expires = _signer(purpose).unsign(token).partition(".")
    except BadSignature:
        return None
    return UUID(job) if time.time() < int(expires) else None


def _signer(purpose: str) -> Signer:
    return Signer(salt=f"djqueue.progress.{purpose}", sep=".")
