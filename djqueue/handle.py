"""What `enqueue` gives back."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from .lookup import get_job
from .records import JobRecord
from .states import Status


@dataclass(frozen=True, slots=True)
class JobHandle:
    """A job that was enqueued; `created` is False when an earlier job holds its dedup key, None before its commit."""

    id: UUID
    created: bool | None = True

    def job(self) -> JobRecord | None:
        """The job as it is now."""
        return get_job(self.id)

    def status(self) -> Status | None:
        """Its state now; None when it is no longer kept, or not there yet."""
        record = self.job()
        return None if record is None else record.status
