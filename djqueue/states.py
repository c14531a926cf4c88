"""The states of a job, the verdicts that settle it, and other enumerations."""

from __future__ import annotations

from enum import StrEnum

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class Status(TextChoices):
    """The state of a job. docs/reference/states.md tells who moves a job into each, and who takes it out."""

    # Waits for its run_at (a delay, a retry, a snooze); the promoter makes it pending.
    SCHEDULED = "scheduled", _("scheduled")
    # Waits until its limit key admits it.
    BLOCKED = "blocked", _("blocked")
    # Can be claimed now. If it has a limit key, it holds a permit.
    PENDING = "pending", _("pending")
    # Held by a worker under a lease; the worker settles it, or the reaper takes it back.
    CLAIMED = "claimed", _("claimed")
    # Succeeded; kept in DoneJob for KEEP_DONE.
    DONE = "done", _("done")
    # Failed permanently or out of attempts; kept in DeadJob for KEEP_DEAD, can be requeued.
    DEAD = "dead", _("dead")
    # Cancelled by a call or by its task; kept in DoneJob for KEEP_DONE.
    CANCELLED = "cancelled", _("cancelled")


LIVE = (Status.SCHEDULED, Status.BLOCKED, Status.PENDING, Status.CLAIMED)
WAITING = LIVE[:3]
TERMINAL = (Status.DONE, Status.DEAD, Status.CANCELLED)


class Verdict(StrEnum):
    """How the holder of a lease settles its job."""

    ACK = "ack"  # the attempt succeeded
    NACK = "nack"  # the attempt failed
    DEAD_LETTER = "dead_letter"  # the job can never succeed
    CANCEL = "cancel"  # the task stopped because a cancel was requested
    SNOOZE = "snooze"  # run the job again later, without counting the attempt
    RELEASE = "release"  # make the job pending immediately, without counting the attempt
    REAP = "reap"  # the lease expired; set by the reaper


class Outcome(StrEnum):
    """The result of applying a verdict to a job's row."""

    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"
    RETRYING = "retrying"
    SNOOZED = "snoozed"
    RELEASED = "released"
    LOST = "lost"  # the lease was lost; nothing was changed
    LOCKED = "locked"  # the row is locked by another transaction; nothing was changed, try again


WAITING_AGAIN = (Outcome.RETRYING, Outcome.SNOOZED, Outcome.RELEASED)
ENDED = (Outcome.DONE, Outcome.DEAD, Outcome.CANCELLED)


class CancelOutcome(StrEnum):
    """The result of a cancel."""

    REMOVED = "removed"  # the job was waiting and is now cancelled
    REQUESTED = "requested"  # the job is claimed; its worker is notified
    NOT_FOUND = "not_found"  # the job does not exist, or has finished

    @property
    def acted(self) -> bool:
        """Whether the cancel had an effect."""
        return self is not CancelOutcome.NOT_FOUND


class WorkerRequest(StrEnum):
    """What an operator asks a worker to do. Its supervisor obeys within seconds."""

    QUIET = "quiet"  # claim no more jobs, and stay
    RESUME = "resume"  # claim jobs again
    DRAIN = "drain"  # claim no more jobs, finish the running ones, and exit


class DedupUntil(StrEnum):
    """How long a job holds its dedup key."""

    CLAIMED = "claimed"
    DONE = "done"


class OnDuplicate(StrEnum):
    """What happens to a waiting job that holds the dedup key of a new one."""

    KEEP = "keep"  # it stays as it is
    REPLACE = "replace"  # it gets the arguments and the time of the new one


class Misfire(StrEnum):
    """What happens to slots that were not fired in time."""

    SKIP = "skip"  # none of them fires
    ONCE = "once"  # only the latest of them fires
    ALL = "all"  # all of them fire, up to misfire_cap


class Overlap(StrEnum):
    """What happens to a slot while an earlier job of its schedule is live."""

    ALLOW = "allow"  # the slot fires
    SKIP = "skip"  # the slot does not fire
    REPLACE = "replace"  # the slot fires, and the earlier job is cancelled if it is waiting


HIGH = 100
NORMAL = 1000
LOW = 10000
