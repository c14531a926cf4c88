"""When to reap: never while the workers may be alive and only their renewals delayed."""

from __future__ import annotations

import time

from djqueue.conf import config
from djqueue.lifecycle import reap
from djqueue.worker.outages import Outages

from .periodic import Periodic

# Seconds between the two checks of an expired lease.
CHECK_TWICE = 1.0


class Reaper:
    """Reap expired jobs, but only after half a lease in which the database has responded in time.

    A stall of the database or of this machine delays all renewals; in that time the living workers renew theirs. A
    stall that was too short to be noticed here is over within a moment, so a lease must be expired in two checks.
    """

    def __init__(self, outages: Outages) -> None:
        self.outages = outages
        self.found_at: float | None = None
        self.periodic = Periodic("reaping", self.work, config().reaper_interval)

    def work(self) -> None:
        now = time.monotonic()
        if not self._is_steady() or not reap.any_expired():
            self.found_at = None
        elif self.found_at is None:
            self.found_at = now
            self.periodic.due_at = now + CHECK_TWICE
        elif now - self.found_at >= CHECK_TWICE / 2:  # else it was called early
            self.found_at = None
            reap.reap(self._is_steady)

    def _is_steady(self) -> bool:
        return self.outages.steady_for() >= config().lease / 2
