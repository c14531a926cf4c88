"""The channels on which PostgreSQL notifies other processes of commits."""

from __future__ import annotations

PENDING = "djqueue_pending"  # the payload is a queue in which jobs can be claimed
SCHEDULED = "djqueue_scheduled"  # a job or a schedule has a new time; a sleeping scheduler may have to wake up earlier
CHECK = "djqueue_check"  # a test that notifications arrive
ENDED = "djqueue_ended"  # jobs have finished; the notification carries no ids, so waiters query their jobs
BLOCKED = "djqueue_blocked"  # the payload is a limit key of which jobs may be admitted; empty for any key

# Requests to look for such jobs now, and then often for some time, because a process enqueues many of them and does not
# notify for each. The payload begins with that time in seconds.
RUSHES = {PENDING: "djqueue_pending_rush", BLOCKED: "djqueue_blocked_rush"}
CHANNEL_OF_RUSH = {rush: channel for channel, rush in RUSHES.items()}
LONGEST_RUSH = 2.0  # No version of djqueue may ask for more than workers of the version before it give.


def rush_request(channel: str, payload: str, lasts: float) -> tuple[str, str]:
    """Return the channel and the payload of a request."""
    return RUSHES[channel], f"{lasts:g} {payload}"


def parse_rush_request(payload: str) -> tuple[float, str]:
    """Return how long the rush lasts, and the payload that its notifications would have."""
    lasts, _, payload = payload.partition(" ")
    return min(float(lasts), LONGEST_RUSH), payload
