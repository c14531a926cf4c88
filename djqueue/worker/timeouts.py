"""Ends attempts that run past their timeout, by an exception raised inside them.

Arming, firing and disarming happen under the slot's lock: an exception is injected only while its own job runs, and one
that was injected but not yet raised when the job ended is taken back.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connections

from djqueue.exceptions import TaskTimeout

RESOLUTION = 0.05


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
        """End the limit; True when it had been passed."""
        passed = False
        while True:
            try:
                with self.lock:
                    self.deadline = None
                    passed = passed or self.fired
                    if self.fired:
                        _inject(self.thread_id, None)
                    self.fired = False
                return passed
            except TaskTimeout:  # it came while we took the lock; there is no second one
                passed = True


class Timeouts:
    """A thread that looks at every slot."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="djqueue-timeouts", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join()

    @contextmanager
    def limit(self, slot: Slot, seconds: float | None, injured: Callable[[], None]) -> Iterator[None]:
        """Raise TaskTimeout in the body when it runs longer, and tell that it was."""
        if seconds is None:
            yield
            return
        with slot.lock:
            slot.deadline = time.monotonic() + seconds
        try:
            yield
        finally:
            if slot.disarm():
                # Whatever it interrupted, perhaps in the middle of a conversation with the database.
                connections.close_all()
                injured()

    def _run(self) -> None:
        while not self.stopping.wait(RESOLUTION):
            for slot in list(self.slots):
                slot.fire()


def _inject(thread_id: int, kind: type[BaseException] | None) -> None:
    exception = ctypes.py_object(kind) if kind is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), exception)
