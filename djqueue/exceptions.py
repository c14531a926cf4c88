"""The exceptions that djqueue raises, and those that a task raises to control its own job."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID


class DjqueueError(Exception):
    """Base class of all errors raised by djqueue."""


class InvalidArguments(DjqueueError, TypeError):
    """The arguments of a call do not fit the signature of its task; nothing was written."""


class InvalidPayload(DjqueueError, TypeError, ValueError):
    """A value cannot be stored; the message contains its path and what to pass instead."""


class PayloadTooLarge(InvalidPayload):
    """The encoded arguments, headers or result exceed MAX_PAYLOAD_SIZE."""


class KvValueTooLarge(DjqueueError, ValueError):
    """A KV value exceeds MAX_KV_VALUE_SIZE; nothing was written."""

    def __init__(self, size: int, max: int) -> None:  # noqa: A002 - the contract's name
        super().__init__(f"KV value too large: {size} bytes encoded (maximum {max}).")
        self.size = size
        self.max = max


class InvalidOption(DjqueueError, TypeError, ValueError):
    """An option of a task or a call is unknown, malformed or out of range."""


class DuplicateTask(DjqueueError):
    """Two functions were registered under the same task name."""


class DuplicateJob(DjqueueError):
    """A job with this id is live or still kept; nothing was written and the transaction stays usable."""

    def __init__(self, id: UUID, where: str = "") -> None:  # noqa: A002 - the contract's name
        super().__init__(f"{where}job id {id} already exists")
        self.id = id


class UnknownSchedule(DjqueueError, LookupError):
    """No schedule has this name."""


class DuplicateSchedule(DjqueueError):
    """A schedule with this name already exists."""


class LeaseLost(DjqueueError):
    """The caller no longer holds the job: its lease expired, or it was settled. Nothing was changed."""


class NotDead(DjqueueError):
    """The job is not dead; only dead jobs can be requeued."""


class NotDone(DjqueueError):
    """The job is neither done nor cancelled; only such jobs can be enqueued again."""


class WaitInTransaction(DjqueueError, RuntimeError):
    """A wait for a job inside an open transaction would never end."""


class TaskControl(Exception):
    """Base class of the exceptions that a task raises to control its own job."""


class PermanentFailure(TaskControl):
    """The job can never succeed: it becomes dead immediately, without further attempts."""


class Retry(TaskControl):
    """Retry the job after `delay`. If this was the last attempt, the job becomes dead."""

    def __init__(self, reason: str = "retry requested", *, delay: float | timedelta | None = None) -> None:
        super().__init__(reason)
        self.delay = delay


class Snooze(TaskControl):
    """Run the job again after `delay`, without counting this attempt."""

    def __init__(self, delay: float | timedelta) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = delay


class Throttled(Snooze):
    """A service asked for a pause: run the job again after `delay`, without counting this attempt.

    If the job has a limit key, no other job of the key is admitted before.
    """


class Cancelled(TaskControl):
    """Finish the job as cancelled."""


class TaskTimeout(BaseException):
    """Raised in a task that exceeds its timeout. Not an Exception, so that `except Exception` does not catch it."""

    def __init__(self, message: str = "exceeded its timeout") -> None:
        super().__init__(message)
