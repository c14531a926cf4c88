"""End attempts that run past their timeout, by an exception raised inside them.

Arming, firing and disarming happen under the slot's lock: an exception is injected only while its own job runs, and one
that was injected but not yet raised when the job ended is taken back.
"""

from __future__ import annotations

import ctypes
import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import connections

from djqueue.exceptions import TaskTimeout
from djqueue.worker.threads import Fatal, VitalThread

RESOLUTION = 0.05
T = TypeVar("T")


class Slot:
    """The timeout of one thread that runs jobs."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.thread_id = threading.get_ident()
        self.deadline: float | None = None
        self.fired = False

    def fire(self) -> None:
        with self.lock:
            if self.deadline is not None and not self.fired and time.monotonic() >= self.deadline:
                self.fired = True
                _inject(self.thread_id, TaskTimeout)

    def disarm(self) -> bool:
        """Remove the limit; return whether it was passed. May raise a pending TaskTimeout: call it again then."""
        with self.lock:
            self.deadline = None
            passed = self.fired
            if passed:
                _inject(self.thread_id, None)
            self.fired = False
        return passed


class Timeouts:
    """A thread that checks every slot while one of them has a deadline."""

    def __init__(self, fatal: Fatal) -> None:
        self.slots: list[Slot] = []
        # Wakes the thread. Unlike an Event, it leaves no lock behind if a timeout is raised in the thread that uses it.
        self.armed: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.stopping = False
        self.thread = VitalThread(self._run, "djqueue-timeouts", fatal)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.stopping = True
        self.armed.put(None)
        self.thread.join()

    def call(self, slot: Slot, seconds: float | None, work: Callable[[], T], timed_out: Callable[[], None]) -> T:
        """Call `work`, raise TaskTimeout in it when it runs longer, and call `timed_out` if that happened.

        The exception may be raised on entry to any call, `disarm` included, so disarming is tried until it returns. It
        must not be left to the exit of a context manager: an exception on entry to that would leave the slot armed.
        """
        if seconds is None:
            return work()
        passed = False
        try:
            with slot.lock:
                slot.deadline = time.monotonic() + seconds
            if self.armed.empty():  # else the thread has yet to read the slots
                self.armed.put(None)
            return work()
        finally:
            while True:
                try:
                    passed = slot.disarm() or passed
                    break
                except TaskTimeout:
                    passed = True
            if passed:
                # It may have interrupted anything, perhaps a statement.
                connections.close_all()
                timed_out()

    def _run(self) -> None:
        while not self.stopping:
            self.armed.get()
            while not self.stopping and any(slot.deadline is not None for slot in list(self.slots)):
                for slot in list(self.slots):
                    slot.fire()
                time.sleep(RESOLUTION)


def _inject(thread_id: int, kind: type[BaseException] | None) -> None:
    exception = ctypes.py_object(kind) if kind is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), exception)
