"""The queues that this process claims from: which have something, and in which order."""

from __future__ import annotations

import time
from collections.abc import Iterable

from djqueue.sql import statements
from djqueue.worker.options import Options

from .claim_marks import FORGET_AFTER, ClaimMarks

# Claim from the queues that had something for so long before looking for others.
LOOK_AGAIN = 0.25
# With an order of preference, every so many claims another queue comes first.
PREFERRED_CLAIMS = 8


class ClaimableQueues:
    """Used by the claimer alone."""

    def __init__(self, options: Options, claim_marks: ClaimMarks) -> None:
        self.options = options
        self.claim_marks = claim_marks
        self.names: list[str] = []
        self.names_until = 0.0  # monotonic
        self.is_fresh = False  # the names were read from the database just now
        self.claims = 0

    def in_order(self) -> list[str]:
        """Return the queues to claim from, in the order of preference if there is one, else each first in its turn."""
        self.is_fresh = time.monotonic() >= self.names_until
        if self.is_fresh:
            chosen = self.options.queues
            found = [name for name in statements().claimable_queues() if self.options.consumes(name)]
            # Where looking is slow, it is not worth it for a queue that had something a moment ago.
            slow = self.claim_marks.queues()
            found += [name for name in slow if name not in found]
            self.names = [name for name in chosen if name in found] if chosen else found
            self.names_until = time.monotonic() + (FORGET_AFTER if slow else LOOK_AGAIN)
        # Every so often the last is first, so that no queue starves behind one that is never empty.
        if not self.names or (self.options.queues and self.claims % PREFERRED_CLAIMS):
            return self.names
        first = (self.claims // PREFERRED_CLAIMS if self.options.queues else self.claims) % len(self.names)
        return self.names[first:] + self.names[:first]

    def claimed(self) -> None:
        """Count a claim: it is another queue's turn."""
        self.claims += 1

    def may_have_jobs(self, queues: Iterable[str | None]) -> None:
        """Add queues that were named by a wake-up, where looking for them would be slow; None is any queue."""
        if self.claim_marks.queues():
            if None in queues:
                self.names_until = 0.0
            self.names += [name for name in queues if name and name not in self.names and self.options.consumes(name)]

    def claim_from(self, queues: Iterable[str | None]) -> None:
        """Claim from queues that were named by a wake-up, without looking for others; None is any queue.

        Only if the last look found nothing: a queue that is named again and again would hide one that was named before.
        """
        named = [name for name in queues if name is not None and self.options.consumes(name)]
        if named and None not in queues and self.is_fresh and not self.names:
            self.names = sorted(named, key=list(self.options.queues).index) if self.options.queues else named
            self.names_until = time.monotonic() + LOOK_AGAIN

    def look_again(self) -> None:
        """Forget which queues had something, unless finding that out is slow."""
        if not self.claim_marks.queues():
            self.names_until = 0.0
