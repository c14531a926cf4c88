"""When to look for jobs without a notification, because a process enqueues many: see sql/postgresql/rushes.py."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from djqueue.core.channels import LONGEST_RUSH

Wakeup = tuple[str, str | None]  # channel and queue; None stands for any

LOOK_EVERY, LOOK_IN_CASE_EVERY = 0.01, 0.1  # seconds, in a rush and where there may be one


class Looks(NamedTuple):
    next_at: float
    last_at: float
    every: float


class Rushes:
    """The rushes of which a process knows, by what it looks for."""

    def __init__(self) -> None:
        self.looks: dict[Wakeup, Looks] = {}

    def began(self, wakeup: Wakeup, lasts: float) -> None:
        """Look often from now on; the caller looks now."""
        now = time.monotonic()
        last_at = now + lasts
        if wakeup in self.looks:  # another process may be in a longer one
            last_at = max(last_at, self.looks[wakeup].last_at)
        self.looks[wakeup] = Looks(now + LOOK_EVERY, last_at, LOOK_EVERY)

    def may_have_begun(self, wakeup: Wakeup) -> None:
        """Look now and then until any rush that has begun before now is over, or has been renewed."""
        now = time.monotonic()
        self.looks[wakeup] = Looks(now + LOOK_IN_CASE_EVERY, now + LONGEST_RUSH, LOOK_IN_CASE_EVERY)

    def next_at(self) -> float:
        return min((looks.next_at for looks in self.looks.values()), default=math.inf)

    def due(self) -> list[Wakeup]:
        """Return what to look for now."""
        now = time.monotonic()
        due = [wakeup for wakeup, looks in self.looks.items() if looks.next_at <= now]
        for wakeup in due:
            _, last_at, every = self.looks[wakeup]
            if last_at <= now:
                del self.looks[wakeup]
            else:
                self.looks[wakeup] = Looks(min(now + every, last_at), last_at, every)
        return due
