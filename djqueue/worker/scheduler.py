"""Promotes jobs the moment they are due: sleeps until the next run_at, woken when an earlier one is committed."""

from __future__ import annotations

import threading

from django.db import connections

from djqueue import maintenance
from djqueue.channels import SCHEDULED
from djqueue.conf import config
from djqueue.lifecycle import promote
from djqueue.listener import listener

from .pulse import AWAY, Pulse, pause

# Where every commit wakes us, we do not look more often than that.
SHORTEST = 0.01
# Where commits wake us, this is for what went wrong unnoticed.
LONGEST = 10.0


class Scheduler:
    """One thread."""

    def __init__(self, pulse: Pulse) -> None:
        self.pulse = pulse
        self.bell = threading.Event()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="djqueue-scheduler", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self.bell.set()
        self.thread.join(1)

    def _run(self) -> None:
        failures = 0
        try:
            with listener().watching(None, self.bell.set, channel=SCHEDULED):
                while not self.stopping.wait(SHORTEST):
                    self.bell.clear()
                    try:
                        wait = self._turn()
                        failures = 0
                    except AWAY as error:
                        failures += 1
                        self.pulse.failed("promoting", error)
                        wait = pause(failures)
                    self.bell.wait(wait)
        finally:
            connections.close_all()

    def _turn(self) -> float:
        """Promote what is due; gives the time to sleep."""
        due_in = promote.due_in()
        if due_in is not None and due_in <= 0:
            maintenance.promote()
            due_in = promote.due_in()
        longest = LONGEST if listener().is_well else config().scheduler_interval
        return longest if due_in is None else max(0.0, min(due_in, longest))
