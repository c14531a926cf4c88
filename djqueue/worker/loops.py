"""How long ago each loop of a worker had its last good turn, written with the heartbeats.

A turn is good if it had no error; nothing to do is no error. After a good turn a loop announces how long it rests, and
its age is 0 until that time is over or it starts to work again. So an idle loop has the age 0, whatever its interval,
and the age of a loop grows while its turns fail, while a turn hangs, and if it does not return from its rest.
"""

from __future__ import annotations

import math
import threading
import time

UNTIL_WOKEN = math.inf  # a rest that only an event ends


class Turns:
    """The turns of one loop: written by its thread, read by any."""

    def __init__(self) -> None:
        self.good_until = time.monotonic()

    def good(self, rest: float = 0.0) -> None:
        """Note a good turn, and that the next one starts within so many seconds."""
        self.good_until = time.monotonic() + rest

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Rest after a good turn until an event, or for so many seconds; return whether it was the event."""
        self.good(seconds)
        woken = event.wait(seconds)
        self.good()
        return woken

    @property
    def age(self) -> float:
        """Return the seconds since the last good turn and the rest after it."""
        return round(max(0.0, time.monotonic() - self.good_until), 1)
