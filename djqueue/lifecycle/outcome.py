"""Decide what a verdict means for its job: the rules are here, once, and the statements of `sql` apply them.

A decision is made before the row is locked, so it may depend only on what cannot change while the claim's token holds:
attempts, max_attempts, returns, crashes, run_at and unknown_since are written by claims and settlements alone. (If
max_attempts is changed by hand while a job runs, the change counts from its next claim.) Four columns of a claimed row
can change under its token:

- `cancel_requested`: a cancel may come at any time. It matters to a nack, whose statement looks at the row's flag
  (`Decision.cancellable`).
- `started`: a worker marks a job when it begins. It matters to the reaper, whose statement leaves a job alone that
  began after the reaper read it (`Decision.returned`), and to `started_at` of a job that is given back, which each
  database clears if the row was never started.
- `lease_expires_at`: the reaper's statement compares it again.
- `progress`: no decision depends on it.

tests/sql/test_same_rows_everywhere.py compares what the databases make of a decision.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from djqueue.core.records import Decision, Settlement
from djqueue.core.retries import NoRetry, RetryPolicy
from djqueue.states import Outcome, Verdict

if TYPE_CHECKING:
    from djqueue.models import Job

# How often a job that was claimed but never started gets its attempt back from the reaper. So a job that takes its
# machine down before it is marked as started is not claimed again and again forever.
MAX_RETURNS = 3


def is_final(policy: RetryPolicy, attempts: int, max_attempts: int) -> bool:
    """Return whether a failed attempt is the last one."""
    return isinstance(policy, NoRetry) or attempts >= max_attempts


def is_returned(row: Job) -> bool:
    """Return whether the reaper does not count the attempt, because the job was claimed but never started."""
    return not row.started and row.returns < MAX_RETURNS


class Effect(NamedTuple):
    """The part of a decision that follows from the verdict and its flags alone."""

    outcome: Outcome
    cancellable: bool
    recorded: bool  # if there is an error, it is added to the job's errors
    keeps_place: bool  # run_at stays, unless there is a delay
    spent: bool
    forgiven: bool
    known: bool


@cache  # every combination of five flags: a worker decides thousands of times a second
def effect_of(verdict: Verdict, final: bool, returned: bool, crashed: bool, unknown: bool) -> Effect:
    """Return what a verdict means for a job."""
    outcome = _outcome_of(verdict, final, returned)
    released = outcome is Outcome.RELEASED
    return Effect(
        outcome=outcome,
        cancellable=verdict is Verdict.NACK,
        recorded=outcome not in (Outcome.SNOOZED, Outcome.RELEASED),
        keeps_place=released,
        spent=outcome is Outcome.RETRYING,
        # The task came to its own end: an earlier crash was not its doing.
        forgiven=verdict in (Verdict.NACK, Verdict.SNOOZE) and not crashed and not unknown,
        known=not unknown and not released,
    )


def _outcome_of(verdict: Verdict, final: bool, returned: bool) -> Outcome:
    match verdict:
        case Verdict.ACK:
            return Outcome.DONE
        case Verdict.CANCEL:
            return Outcome.CANCELLED
        case Verdict.DEAD_LETTER:
            return Outcome.DEAD
        case Verdict.SNOOZE:
            return Outcome.SNOOZED
        case Verdict.RELEASE:
            return Outcome.RELEASED
        case Verdict.REAP if returned:
            return Outcome.RELEASED
    return Outcome.DEAD if final else Outcome.RETRYING


def decide(item: Settlement) -> Decision:
    """Return what a settlement changes in the row of its job."""
    outcome, cancellable, recorded, keeps_place, spent, forgiven, known = effect_of(
        item.verdict, item.final, item.returned, item.crashed, item.unknown
    )
    delay = item.delay
    return Decision(  # by position, which is twice as fast, in the order of the class
        item.id,
        item.token,
        outcome,
        cancellable,
        item.keep_done,
        item.result,
        item.error if recorded else "",
        item.entry if recorded else "",
        item.wait,
        item.run,
        # Microseconds are what every database stores.
        round(delay, 6) if delay else None if keeps_place else 0.0,
        spent,
        item.returned,
        item.crashed,
        forgiven,
        item.unknown,
        known,
    )
