"""Whether the database answers, as all loops of a worker see it."""

from __future__ import annotations

import logging
import random
import time

from django.db import DatabaseError, InterfaceError, OperationalError, connections

logger = logging.getLogger("djqueue")

# What a database that is away, or that came back as another, makes of a statement.
AWAY = (DatabaseError, InterfaceError)
GONE = (OperationalError, InterfaceError)
LONGEST_PAUSE = 5.0


class Pulse:
    """When the database last failed to answer; a start counts as a failure, since nobody knows what was before."""

    def __init__(self) -> None:
        self.failed_at = time.monotonic()

    def failed(self, what: str, error: Exception) -> None:
        """Note that a turn of a loop failed, and drop this thread's connections: the next one may succeed.

        No loop of a worker ends for an error, whatever it is: nobody would notice.
        """
        if isinstance(error, GONE):
            self.failed_at = time.monotonic()
        text = str(error).strip().replace("\n", " ")
        unexpected = not isinstance(error, AWAY)
        logger.log(
            logging.ERROR if unexpected else logging.WARNING,
            *("%s failed, trying again error=%s", what, text),
            exc_info=error if unexpected else None,
        )
        for connection in connections.all(initialized_only=True):
            try:
                connection.close()
            except Exception:
                del connections[connection.alias]

    def steady_for(self) -> float:
        """Seconds without a failure."""
        return time.monotonic() - self.failed_at


def pause(failures: int) -> float:
    """How long to wait after so many failures in a row: longer and longer, never together with others."""
    return min(LONGEST_PAUSE, 0.05 * 2.0 ** min(failures, 8)) * random.uniform(0.5, 1)
