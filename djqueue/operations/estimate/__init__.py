"""When a waiting job will start: how many jobs are ahead of it, and how long that takes."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from djqueue.core.async_twins import twin

# This module is imported before the apps are ready: what needs the models is imported by the function.


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is between a job and its start. What is not known is None."""

    ahead: int | None = None  # pending jobs that come first in its queue; None also if there are more than 100,000
    p50: float | None = None  # seconds until it starts: half of such jobs start earlier
    p90: float | None = None  # nine of ten such jobs start earlier


def estimate(id: UUID | str) -> Estimate:  # noqa: A002 - the contract's name
    """Estimate when a waiting job starts. At most 15 statements, each of bounded cost.

    The seconds are None if the job does not wait, if it cannot start (its queue is paused, no live worker consumes it,
    the workers do not know its task), if it still needs a permit of its limit key, or if no run times were measured in
    the last day. Of a blocked job, everything is None.
    """
    from djqueue.operations.situation import find

    from . import start_times

    found = find(id)
    return Estimate() if found is None else start_times.of(found)


aestimate = twin(estimate)
