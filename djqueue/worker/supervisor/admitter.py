"""Which limit keys to look at: those that were notified, those whose time has come, and sometimes all of them."""

from __future__ import annotations

import time
from collections.abc import Collection

from django.db import DatabaseError

from djqueue.core.log import logger
from djqueue.lifecycle import admit
from djqueue.lifecycle.limits import give_back_paused
from djqueue.sql import limits, statements

# Seconds between two looks at all keys, where notifications arrive, and between two looks at paused queues.
SWEEP = 10.0
# Keys whose rate or hold is waited for. Others are found by the sweep.
MOST_WAITS = 10_000
# Keys in one turn: jobs have to be promoted, and schedules fired, meanwhile.
MOST_KEYS = 4 * admit.KEYS


class Admitter:
    """Used by one thread."""

    def __init__(self) -> None:
        self.keys: dict[str, None] = {}  # to look at, in this order, until that has succeeded
        self.due: dict[str, float] = {}  # when the rate or the hold of a key allows more, in monotonic seconds
        self.page_after: str | None = ""  # the sweep goes on behind this key; None between two sweeps
        self.again = False  # another sweep has to follow
        self.sweep_at = 0.0
        self.give_back_at = 0.0

    def notified(self, keys: set[str | None]) -> None:
        """Note keys of which jobs may be admitted; None stands for any."""
        if None in keys:
            self.again = self.page_after is not None
            self.page_after = self.page_after or ""
        self.keys |= {key: None for key in keys if key is not None}

    def turn(self) -> float:
        """Admit jobs; return the seconds until the next turn."""
        now = time.monotonic()
        if now >= self.sweep_at:
            self.page_after = self.page_after or ""
        if self.page_after is not None:
            self._sweep(self.page_after, now)
        self.keys |= {key: None for key, at in self.due.items() if at <= now}
        if keys := list(self.keys)[:MOST_KEYS]:
            waits = _admit(keys)
            now = time.monotonic()
            for key in keys:
                del self.keys[key]
                self.due.pop(key, None)
            self.due |= {key: now + wait for key, wait in list(waits.items())[: MOST_WAITS - len(self.due)]}
        if self.keys or self.page_after is not None:
            return 0.0
        return max(0.0, min([self.sweep_at, *self.due.values()]) - now)

    def _sweep(self, after: str, now: float) -> None:
        """Note the next page of all keys."""
        page = limits.blocked_keys(statements(), after, admit.KEYS)
        self.keys |= dict.fromkeys(page)
        if page and now >= self.give_back_at:
            give_back_paused()
            self.give_back_at = now + SWEEP
        self.sweep_at = now + SWEEP
        if len(page) == admit.KEYS:
            self.page_after = page[-1]
        else:
            self.page_after, self.again = "" if self.again else None, False


def _admit(keys: Collection[str]) -> dict[str, float]:
    """Admit jobs of keys, and return when to look at them again. A key whose numbers make no sense fails alone."""
    try:
        return admit.admit_keys(keys).waits
    except DatabaseError:
        raise
    except Exception:
        if len(keys) > 1:
            waits: dict[str, float] = {}
            for key in keys:
                waits |= _admit([key])
            return waits
        logger.exception("jobs of a limit key could not be admitted key=%s", *keys)
        return {}
