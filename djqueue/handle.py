"""What `enqueue` gives back."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from . import jobs
from .durations import Duration
from .records import JobRecord, WaitOutcome
from .states import CancelOutcome, Status
from .twins import twin


@dataclass(frozen=True, slots=True)
class JobHandle:
    """A job that was enqueued; `created` is False when an earlier job holds its dedup key, None before its commit."""

    id: UUID
    created: bool | None = True

    def job(self) -> JobRecord | None:
        """The job as it is now."""
        return jobs.get_job(self.id)

    def status(self) -> Status | None:
        """Its state now; None when it is no longer kept, or not there yet."""
        record = self.job()
        return None if record is None else record.status

    def wait(self, timeout: Duration | None = None) -> WaitOutcome:
        """Wait until it is done, dead or cancelled."""
        return jobs.wait(self.id, timeout)

    async def await_(self, timeout: Duration | None = None) -> WaitOutcome:
        """The async twin of `wait`, under the name that Python leaves for it."""
        return await jobs.await_(self.id, timeout)

    def cancel(self) -> CancelOutcome:
        """Cancel it: while it waits it ends now, when it is claimed it is asked to."""
        return jobs.cancel(self.id)

    ajob = twin(job)
    astatus = twin(status)
    acancel = twin(cancel)
