"""Promotes jobs and fires schedules the moment they are due: sleeps until then, woken when something earlier comes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from django.db import connections, reset_queries

from djqueue import maintenance, schedules
from djqueue.channels import SCHEDULED
from djqueue.conf import config
from djqueue.definitions import Definition
from djqueue.lifecycle import promote
from djqueue.listener import listener

from .pulse import Pulse, pause

# Where every commit wakes us, we do not look more often than that.
SHORTEST = 0.01
# What is due and was not done is locked by somebody who does it.
IN_OTHER_HANDS = 0.05
# Where commits wake us, this is for what went wrong unnoticed.
LONGEST = 10.0


Declared = Callable[[], Mapping[str, Definition | None]]  # the schedules of the project's code


class Scheduler:
    """One thread; without schedules when nothing can tell what code declares."""

    def __init__(self, pulse: Pulse, declared: Declared | None) -> None:
        self.pulse = pulse
        self.declared = declared
        self.synchronised = False
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
                    except Exception as error:
                        failures += 1
                        self.pulse.failed("promoting and firing", error)
                        wait = pause(failures)
                    reset_queries()
                    self.bell.wait(wait)
        finally:
            connections.close_all()

    def _turn(self) -> float:
        """Do what is due; gives the time to sleep."""
        due_in = promote.due_in()
        if due_in is not None and due_in <= 0:
            maintenance.promote()
            due_in = promote.due_in()
        slot_in = self._fire()
        longest = LONGEST if listener().is_well else config().scheduler_interval
        wait = min([longest, *(wait for wait in (due_in, slot_in) if wait is not None)])
        return wait if wait > 0 else IN_OTHER_HANDS

    def _fire(self) -> float | None:
        """Fire the schedules that are due; gives the time until the next."""
        if self.declared is None:
            return None
        if not self.synchronised:
            schedules.synchronise(self.declared())
            self.synchronised = True
        slot_in = schedules.seconds_until_next()
        if slot_in == 0:
            maintenance.fire_schedules()
            slot_in = schedules.seconds_until_next()
        return slot_in
