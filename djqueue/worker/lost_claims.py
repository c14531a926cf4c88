"""Claims whose responses were lost: their jobs have not started, and are given back with their attempts.

The connection broke, or the process was killed before it could note all jobs of the claim. The server may still be
working on such a claim, so its jobs are searched for until their leases would have expired.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from uuid import UUID

from djqueue.conf import config
from djqueue.core.log import logger
from djqueue.lifecycle.crash import release_claims

from .outages import Outages

# Seconds between two queries.
INTERVAL = 1.0


class LostClaims:
    """Used by one thread."""

    def __init__(self, outages: Outages) -> None:
        self.outages = outages
        self.tokens: dict[UUID, float] = {}  # when they were added, monotonic
        self.known: set[UUID] = set()  # jobs of these claims that did arrive
        self.next_query = 0.0

    def add(self, token: UUID, known: Iterable[UUID] = ()) -> None:
        """Look for the jobs of a claim, except for those that are known to have arrived."""
        self.tokens[token] = time.monotonic()
        self.known.update(known)
        self.next_query = 0.0

    def release(self) -> None:
        """Give back the jobs of these claims that exist by now."""
        now = time.monotonic()
        if not self.tokens or now < self.next_query:
            return
        with self.outages.watching("releasing lost claims"):
            released = release_claims(list(self.tokens), self.known)
        self.next_query = now + INTERVAL  # if it failed, nothing is claimed before it has been tried again
        if released:
            logger.warning("response to a claim lost, released jobs=%d", released)
        oldest = now - max(INTERVAL, config().lease)
        self.tokens = {token: at for token, at in self.tokens.items() if at > oldest}
        if not self.tokens:
            self.known.clear()
