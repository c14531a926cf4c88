"""Everything that djqueue raises, and what a task raises to steer its own job."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID


class DjqueueError(Exception):
    """The root of every error that djqueue raises."""


class InvalidPayload(DjqueueError, TypeError, ValueError):
    """A value cannot be stored as JSON; the message gives its path."""


class PayloadTooLarge(InvalidPayload):
    """The encoded arguments, headers or result exceed MAX_PAYLOAD_SIZE."""


class KvValueTooLarge(DjqueueError, ValueError):
    """A kv value exceeds MAX_KV_VALUE_SIZE; nothing was written."""

    def __init__(self, size: int, max: int) -> None:  # noqa: A002 - the contract's name
        super().__init__(f"a kv value may take {max} bytes encoded; this one takes {size}")
        self.size = size
        self.max = max


class InvalidOption(DjqueueError, TypeError, ValueError):
    """An option of a task or a call is unknown, malformed or out of range."""


class DuplicateTask(DjqueueError):
    """Two functions were registered under one task name."""


class UnknownTask(DjqueueError, LookupError):
    """No task is registered under that name in this process."""


class DuplicateJob(DjqueueError):
    """A job with that id is live or still kept; nothing was written and the transaction stays usable."""

    def __init__(self, id: UUID, where: str = "") -> None:  # noqa: A002 - the contract's name
        super().__init__(f"{where}a job with the id {id} is live or kept")
        self.id = id


class UnknownSchedule(DjqueueError, LookupError):
    """There is no schedule of that name."""


class DuplicateSchedule(DjqueueError):
    """There is a schedule of that name already."""


class LeaseLost(DjqueueError):
    """The job is no longer ours: its lease ran out, or it was settled; nothing was changed."""


class NotDead(DjqueueError):
    """Only a dead job can be requeued."""


class WaitInTransaction(DjqueueError, RuntimeError):
    """Waiting for a job inside an open transaction could never end."""


class TaskControl(Exception):
    """What a task raises to steer its own job."""


class PermanentFailure(TaskControl):
    """The job can never succeed: dead-letter it now."""


class Retry(TaskControl):
    """Try again after `delay`; on the last attempt the job dies."""

    def __init__(self, reason: str = "retry requested", *, delay: float | timedelta | None = None) -> None:
        super().__init__(reason)
        self.delay = delay


class Snooze(TaskControl):
    """Come back after `delay` without spending an attempt."""

    def __init__(self, delay: float | timedelta) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = delay


class Cancelled(TaskControl):
    """End the job as cancelled."""


class TaskTimeout(BaseException):
    """Raised into a task that ran past its timeout; no `except Exception` swallows it."""
