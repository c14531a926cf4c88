"""Look at jobs by id, and steer them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from .durations import Duration
from .exceptions import InvalidOption, NotDead
from .lifecycle import cancel as cancelling
from .lifecycle import enqueue as enqueueing
from .lifecycle import requeue as requeueing
from .lifecycle import wait as waiting
from .options import job_id
from .records import JobRecord, Requeue, WaitOutcome
from .sql import statements
from .states import CancelOutcome
from .twins import twin


def get_job(id: UUID | str) -> JobRecord | None:  # noqa: A002 - the contract's name
    """The job of that id, whatever table it is in; None when there is none, or when the id is malformed."""
    found = _well_formed(id)
    return None if found is None else statements().get(found)


def cancel(id: UUID | str) -> CancelOutcome:  # noqa: A002
    """Cancel a job: a waiting one ends now, a claimed one is asked to."""
    found = _well_formed(id)
    return CancelOutcome.NOT_FOUND if found is None else cancelling.cancel(found)


def requeue(
    id: UUID | str,  # noqa: A002
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    run_at: datetime | None = None,
) -> JobRecord:
    """Put a dead job back under its id, with other arguments or for another time if you like; raises NotDead."""
    found = _well_formed(id)
    if found is None:
        raise NotDead(f"{id!r} is not the id of a job")
    for name, value, kind in (("args", args, list | tuple), ("kwargs", kwargs, Mapping)):
        if value is not None and not isinstance(value, kind):
            raise InvalidOption(f"{name} must be a {'list' if name == 'args' else 'dictionary'}")
    texts: dict[str, str] = {}
    if args is not None or kwargs is not None:
        record = statements().get(found)
        texts = enqueueing.encode_arguments(record.task if record else str(found), args or [], kwargs or {}, {})
    item = Requeue(
        id=found,
        args=None if args is None else texts["args"],
        kwargs=None if kwargs is None else texts["kwargs"],
        run_at=run_at,
    )
    for record in requeueing.requeue_many([item]):
        return record
    raise NotDead(f"job {found} is not among the dead jobs")


def reschedule(id: UUID | str, run_at: datetime | None = None, priority: int | None = None) -> bool:  # noqa: A002
    """Change when a waiting job runs, or before which others; False when it does not wait (any more)."""
    found = _well_formed(id)
    return bool(requeueing.reschedule_many([] if found is None else [found], run_at=run_at, priority=priority))


def wait(id: UUID | str, timeout: Duration | None = None) -> WaitOutcome:  # noqa: A002
    """Wait until a job is done, dead or cancelled, for ever without a timeout; a retry does not end the wait."""
    found = _well_formed(id)
    return WaitOutcome(not_found=True) if found is None else waiting.wait(found, timeout)


async def await_(id: UUID | str, timeout: Duration | None = None) -> WaitOutcome:  # noqa: A002
    """The async twin of `wait`, under the name that Python leaves for it."""
    found = _well_formed(id)
    return WaitOutcome(not_found=True) if found is None else await waiting.await_(found, timeout)


def wait_for_jobs(timeout: Duration | None = None) -> bool:
    """Wait until something may be claimable on any queue; False when the time is over."""
    return waiting.until(_is_claimable, None, timeout)


async def await_for_jobs(timeout: Duration | None = None) -> bool:
    """The async twin of `wait_for_jobs`."""
    return await waiting.auntil(_is_claimable, None, timeout)


aget_job = twin(get_job)
acancel = twin(cancel)
arequeue = twin(requeue)
areschedule = twin(reschedule)


def _is_claimable() -> bool:
    return bool(statements().claimable_queues())


def _well_formed(id: UUID | str) -> UUID | None:  # noqa: A002
    try:
        return job_id(id)
    except InvalidOption:
        return None
