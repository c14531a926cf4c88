"""Promotes jobs, fires schedules and admits jobs when they are due: sleeps until then, and wakes up if something is due
earlier."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from django.db import reset_queries

from djqueue import maintenance, schedules
from djqueue.conf import config
from djqueue.core.channels import BLOCKED, SCHEDULED
from djqueue.lifecycle import promote
from djqueue.schedules.definition import Definition
from djqueue.waiting.listener import listener
from djqueue.worker.loops import Turns
from djqueue.worker.outages import Outages, pause
from djqueue.worker.threads import Fatal, VitalThread

from .admitter import Admitter

# Where every commit causes a wake-up: the shortest time between two queries.
SHORTEST = 0.01
# What is still due after a turn is locked by another scheduler, which does it.
LOCKED_ELSEWHERE = 0.05
# The longest sleep where commits cause wake-ups, in case one was missed.
LONGEST = 10.0


Declared = Callable[[], Mapping[str, Definition | None]]  # the schedules of the project's code


class Scheduler:
    """One thread; fires no schedules without `declared`."""

    def __init__(self, outages: Outages, declared: Declared | None, fatal: Fatal) -> None:
        self.outages = outages
        self.declared = declared
        self.synchronised = False
        self.admitter = Admitter()
        self.turns = Turns()
        self.wakeup = threading.Event()
        self.stopping = threading.Event()
        self.thread = VitalThread(self._run, "djqueue-scheduler", fatal)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self.wakeup.set()
        self.thread.join(1)

    def _run(self) -> None:
        failures = 0
        woken = True
        with (
            listener().watching(None, self.wakeup.set, channel=SCHEDULED),
            listener().watching(None, self.wakeup.set, channel=BLOCKED) as blocked,
        ):
            # What is due at a time is done at that time; wake-ups may come with every commit.
            while not self.stopping.wait(SHORTEST if woken else 0):
                self.wakeup.clear()
                if self.stopping.is_set():  # a stop() before the clear() would not end the wait
                    break
                self.admitter.notified(blocked.take_queues())
                try:
                    with self.outages.watching("promoting and firing"):
                        wait = self._turn()
                except Exception as error:
                    failures += 1
                    self.outages.failed("promoting and firing", error)
                    woken = self.wakeup.wait(pause(failures))
                else:
                    failures = 0
                    woken = self.turns.wait(self.wakeup, wait)
                reset_queries()

    def _turn(self) -> float:
        """Do what is due; return the seconds to sleep."""
        due_in = promote.due_in()
        if due_in is not None and due_in <= 0:
            maintenance.promote()
            due_in = promote.due_in()
        slot_in = self._fire()
        admission_in = self.admitter.turn()
        longest = LONGEST if listener().is_well else config().scheduler_interval
        wait = min([longest, *(wait for wait in (due_in, slot_in) if wait is not None)])
        return min(wait if wait > 0 else LOCKED_ELSEWHERE, admission_in)

    def _fire(self) -> float | None:
        """Fire the schedules that are due; return the seconds until the next."""
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
