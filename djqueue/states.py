"""The states of a job and the words that settle it."""

from __future__ import annotations

from enum import StrEnum

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class Status(TextChoices):
    # Waits for its run_at (a delay, a retry, a snooze); the promoter takes it out.
    SCHEDULED = "scheduled", _("scheduled")
    # May be claimed now.
    PENDING = "pending", _("pending")
    # Held by a worker under a lease; its holder settles it, or the reaper takes it back.
    CLAIMED = "claimed", _("claimed")
    # Succeeded; kept in DoneJob for KEEP_DONE.
    DONE = "done", _("done")
    # Out of attempts or failed for good; kept in DeadJob for KEEP_DEAD, may be requeued.
    DEAD = "dead", _("dead")
    # Taken out by a person or by itself; kept in DoneJob for KEEP_DONE.
    CANCELLED = "cancelled", _("cancelled")


TERMINAL = (Status.DONE, Status.DEAD, Status.CANCELLED)


class Verdict(StrEnum):
    """What the holder of a lease says of its job."""

    ACK = "ack"  # it succeeded
    NACK = "nack"  # this attempt failed
    DEAD_LETTER = "dead_letter"  # it can never succeed
    CANCEL = "cancel"  # it gave up on request
    SNOOZE = "snooze"  # come back later, attempt returned
    RELEASE = "release"  # give back at once, attempt returned
    REAP = "reap"  # its holder let the lease run out; said by the reaper


class Outcome(StrEnum):
    """What became of a job when a verdict was applied to its row."""

    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"
    RETRYING = "retrying"
    SNOOZED = "snoozed"
    RELEASED = "released"
    LOST = "lost"  # the lease was gone: nothing changed


class CancelOutcome(StrEnum):
    """What a cancel did."""

    REMOVED = "removed"  # it was waiting: it has ended as cancelled
    REQUESTED = "requested"  # it is claimed: its holder is told, and decides
    NOT_FOUND = "not_found"  # there is no such job, or it has ended

    @property
    def acted(self) -> bool:
        return self is not CancelOutcome.NOT_FOUND


class DedupUntil(StrEnum):
    """How long a dedup key is held."""

    CLAIMED = "claimed"
    DONE = "done"


class Misfire(StrEnum):
    """What becomes of slots that nobody fired in time."""

    SKIP = "skip"  # nothing: the next one fires
    ONCE = "once"  # the last of them fires
    ALL = "all"  # each of them fires, up to a cap


class Overlap(StrEnum):
    """What becomes of a slot while an earlier job of its schedule is live."""

    ALLOW = "allow"  # it fires
    SKIP = "skip"  # it does not
    REPLACE = "replace"  # it fires, and the earlier job is cancelled if it still waits


HIGH = 100
NORMAL = 1000
LOW = 10000
