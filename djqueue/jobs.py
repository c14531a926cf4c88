"""Look up, cancel, requeue, reschedule and wait for jobs by id; and the handle that `enqueue` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from .core import signatures
from .core.async_twins import twin
from .core.durations import Duration
from .core.options import job_id
from .core.payload import encode_arguments
from .core.records import JobRecord, Requeue, WaitOutcome
from .core.shown import shown, shown_id
from .exceptions import InvalidOption, NotDead, NotDone
from .lifecycle.cancel import cancel_many
from .lifecycle.enqueue_again import enqueue_again_many
from .lifecycle.requeue import requeue_many, reschedule_many
from .sql import statements
from .states import CancelOutcome, Status
from .waiting import wait as waiting


def get_job(id: UUID | str) -> JobRecord | None:  # noqa: A002 - the contract's name
    """Return the job with this id, whatever its state; None if it does not exist or the id is malformed."""
    found = _parse_id(id)
    return None if found is None else statements().get(found)


def cancel(id: UUID | str) -> CancelOutcome:  # noqa: A002
    """Cancel a job: remove it if it is waiting, request a cancel from its worker if it is claimed."""
    found = _parse_id(id)
    cancelled = [] if found is None else cancel_many([found])
    return cancelled[0].outcome if cancelled else CancelOutcome.NOT_FOUND


def requeue(
    id: UUID | str,  # noqa: A002
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    run_at: datetime | None = None,
) -> JobRecord:
    """Make a dead job live again under its id, optionally with other arguments or at another time.

    Raise NotDead if no dead job has this id.
    """
    found = _parse_id(id)
    if found is None:
        raise NotDead(f"No dead job has the id {shown(id)}: it is not a UUID.")
    for name, value, kind in (("args", args, list | tuple), ("kwargs", kwargs, Mapping)):
        if value is not None and not isinstance(value, kind):
            expected = "a list or tuple" if name == "args" else "a dictionary"
            raise InvalidOption(f"{name} must be {expected}, got {type(value).__name__}")
    item = Requeue(id=found, run_at=run_at)
    if args is not None or kwargs is not None:
        record = statements().get(found)
        _check_arguments(record, args, kwargs)
        texts = encode_arguments(record.task if record else str(found), args or [], kwargs or {}, {})
        item = Requeue(
            id=found,
            args=None if args is None else texts.args,
            kwargs=None if kwargs is None else texts.kwargs,
            run_at=run_at,
        )
    for record in requeue_many([item]):
        return record
    raise NotDead(f"Job {found} is not dead; only dead jobs can be requeued.")


def enqueue_again(id: UUID | str) -> JobHandle:  # noqa: A002
    """Enqueue a copy of a done or cancelled job under a new id; the job itself stays as history.

    Raise NotDone if no done or cancelled job has this id.
    """
    found = _parse_id(id)
    copies = {} if found is None else enqueue_again_many([found])
    for copy in copies.values():
        return JobHandle(copy.id, copy.created)
    raise NotDone(f"No done or cancelled job has the id {shown_id(id)}; it may be no longer kept.")


def reschedule(id: UUID | str, run_at: datetime | None = None, priority: int | None = None) -> bool:  # noqa: A002
    """Change the time or the priority of a waiting job; return False if it is not waiting."""
    found = _parse_id(id)
    return bool(reschedule_many([] if found is None else [found], run_at=run_at, priority=priority))


def wait(id: UUID | str, timeout: Duration | None = None) -> WaitOutcome:  # noqa: A002
    """Wait until a job is done, dead or cancelled; a retry does not end the wait. Without a timeout, wait forever."""
    found = _parse_id(id)
    return WaitOutcome(not_found=True) if found is None else waiting.wait(found, timeout)


async def await_(id: UUID | str, timeout: Duration | None = None) -> WaitOutcome:  # noqa: A002
    """Async variant of `wait`; `await` itself is a keyword."""
    found = _parse_id(id)
    return WaitOutcome(not_found=True) if found is None else await waiting.await_(found, timeout)


def wait_for_jobs(timeout: Duration | None = None) -> bool:
    """Wait until a queue that is not paused has a pending job; return False if the timeout is reached first.

    The call returns immediately while any queue has a backlog. To consume one queue, use `Queue.claim_wait`.
    """
    return waiting.until(_has_pending_job, None, timeout)


async def await_for_jobs(timeout: Duration | None = None) -> bool:
    """Async variant of `wait_for_jobs`."""
    return await waiting.auntil(_has_pending_job, None, timeout)


aget_job = twin(get_job)
acancel = twin(cancel)
arequeue = twin(requeue)
aenqueue_again = twin(enqueue_again)
areschedule = twin(reschedule)


@dataclass(frozen=True, slots=True)
class JobHandle:
    """An enqueued job. `created` is False if another job holds its dedup key, and None if it is enqueued on commit."""

    id: UUID
    created: bool | None = True

    def job(self) -> JobRecord | None:
        """Return the job as it is now; None if it does not exist, or is no longer kept."""
        return get_job(self.id)

    def status(self) -> Status | None:
        """Return the current status; None if the job does not exist, or is no longer kept."""
        record = self.job()
        return None if record is None else record.status

    def wait(self, timeout: Duration | None = None) -> WaitOutcome:
        """Wait until the job is done, dead or cancelled."""
        return wait(self.id, timeout)

    async def await_(self, timeout: Duration | None = None) -> WaitOutcome:
        """Async variant of `wait`; `await` itself is a keyword."""
        return await await_(self.id, timeout)

    def cancel(self) -> CancelOutcome:
        """Cancel the job: remove it if it is waiting, request a cancel from its worker if it is claimed."""
        return cancel(self.id)

    ajob = twin(job)
    astatus = twin(status)
    acancel = twin(cancel)


def _check_arguments(record: JobRecord | None, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None) -> None:
    """Raise InvalidArguments if the task of the job cannot be called with these, or else with its own, arguments."""
    if record is not None:
        args = record.args if args is None else args
        kwargs = record.kwargs if kwargs is None else kwargs
        if isinstance(args, list | tuple) and isinstance(kwargs, Mapping):  # else they are written by hand
            signatures.check(record.task, len(args), kwargs)


def _has_pending_job() -> bool:
    return bool(statements().claimable_queues())


def _parse_id(id: UUID | str) -> UUID | None:  # noqa: A002
    """Return the UUID of a job; None if the id is malformed."""
    try:
        return job_id(id)
    except InvalidOption:
        return None
