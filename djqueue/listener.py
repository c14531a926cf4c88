"""One lazy thread per process that waits on behalf of everybody in it: for jobs to claim, and for jobs to end."""

from __future__ import annotations

import logging
import math
import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID

from .channels import ENDED, PENDING
from .conf import config
from .records import JobRecord, WaitOutcome
from .sql import statements_on
from .states import TERMINAL
from .wakeups import ANYTHING, Source, Wakeup, open_source

logger = logging.getLogger("djqueue")

# Without anybody to wait for, the connection is closed soon: nothing of ours stands in the way of a test database that
# is about to be dropped.
LINGER = 0.5
LOOK_AT_ONCE = 500
RECOVERED = 30.0  # seconds of service after which earlier failures are forgotten


class Alarm:
    """Somebody who wants to be called; from the listener's thread, so the call must not block."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring

    def ring(self) -> None:
        try:
            self._ring()
        except RuntimeError:
            logger.debug("somebody who waited is gone")  # an event loop that was closed meanwhile


class Waiter(Alarm):
    """Somebody who waits for a job to end. `seen` once it was looked for; `outcome` when the waiting is over."""

    def __init__(self, job_id: UUID, ring: Callable[[], None]) -> None:
        super().__init__(ring)
        self.id = job_id
        self.seen = False
        self.record: JobRecord | None = None
        self.outcome: WaitOutcome | None = None
        self.error: Exception | None = None

    def look(self, record: JobRecord | None) -> None:
        """Take note of what the job's row says now."""
        if record is not None and record.status in TERMINAL:
            self.outcome = WaitOutcome(completed=True, record=record)
        elif record is None:
            # It was there and is gone: it ended, and is not kept.
            self.outcome = WaitOutcome(completed=True) if self.seen else WaitOutcome(not_found=True)
        self.record = record
        self.seen = True
        self.ring()

    def fail(self, error: Exception) -> None:
        self.error = error
        self.ring()


class Listener:
    """The thread, its source of wake-ups, and those who wait."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.lock = threading.Lock()
        self.alarms: dict[Wakeup, set[Alarm]] = defaultdict(set)  # by channel and queue; None for any
        self.waiters: dict[UUID, set[Waiter]] = defaultdict(set)
        self.thread: threading.Thread | None = None
        self.kind = ""  # of the source, while it is open
        self.interrupt_read, self.interrupt_write = os.pipe()
        os.set_blocking(self.interrupt_read, False)
        os.set_blocking(self.interrupt_write, False)

    @property
    def is_well(self) -> bool:
        """Whether everybody who watches will be called in time: nobody has to look for himself."""
        return bool(self.kind)

    @contextmanager
    def watching(self, queue: str | None, ring: Callable[[], None], channel: str = PENDING) -> Iterator[Alarm]:
        """Be called whenever jobs of the queue, or of any, may have become claimable, or what the channel tells."""
        alarm = Alarm(ring)
        with self._registered(self.alarms, (channel, queue), alarm):
            yield alarm

    @contextmanager
    def waiting(self, job_id: UUID, ring: Callable[[], None]) -> Iterator[Waiter]:
        """Be called when the job was looked for, and when it ended."""
        waiter = Waiter(job_id, ring)
        with self._registered(self.waiters, job_id, waiter):
            yield waiter

    @contextmanager
    def _registered(self, table: dict, key: object, who: Alarm) -> Iterator[None]:  # type: ignore[type-arg]
        try:
            with self.lock:
                table[key].add(who)
                if self.thread is None or not self.thread.is_alive():
                    self.thread = None
                    thread = threading.Thread(target=self._run, name=f"djqueue-listener-{self.alias}", daemon=True)
                    thread.start()
                    self.thread = thread
            self.interrupt()
            yield
        finally:
            with self.lock:
                table[key].discard(who)
                if not table[key]:
                    del table[key]
            self.interrupt()

    def interrupt(self) -> None:
        try:
            os.write(self.interrupt_write, b"x")
        except BlockingIOError:
            pass  # it is full: the thread will wake anyway

    def _run(self) -> None:
        failures = 0
        while True:
            began = time.monotonic()
            try:
                self._serve()
                return
            except Exception as error:
                failures = failures + 1 if time.monotonic() - began < RECOVERED else 1
                logger.warning("listener lost its database alias=%s error=%s", self.alias, error)
                self._report(error)
                if self._leave_after(-math.inf):
                    return
                time.sleep(min(5.0, 0.1 * 2 ** min(failures, 6)) * random.uniform(0.5, 1.0))

    def _serve(self) -> None:
        """Wait and look until nobody has waited for a while."""
        source = open_source(self.alias, self.interrupt_read)
        self.kind = source.kind
        try:
            # Whatever was committed before we listened was not heard.
            self._react(source, ANYTHING)
            idle_since = time.monotonic()
            while True:
                if self._is_needed():
                    idle_since = time.monotonic()
                elif self._leave_after(idle_since):
                    return
                wakeups = source.wait(LINGER if not self._is_needed() else 60.0)
                self._drain_interrupts()
                self._react(source, wakeups)
        finally:
            self.kind = ""
            source.close()

    def _react(self, source: Source, wakeups: Iterable[Wakeup]) -> None:
        """Ring those whose queue was named, and look for the jobs that somebody waits for."""
        heard = set(wakeups)
        channels = {channel for channel, _ in heard}
        ended = ENDED in channels
        with self.lock:
            alarms = [
                alarm
                for (channel, queue), group in self.alarms.items()
                if (channel in channels if queue is None else {(channel, queue), (channel, None)} & heard)
                for alarm in group
            ]
            waiters = [
                waiter
                for group in self.waiters.values()
                for waiter in group
                if waiter.outcome is None and (ended or not waiter.seen)
            ]
        for alarm in alarms:
            alarm.ring()
        self._look(source, waiters)

    def _look(self, source: Source, waiters: list[Waiter]) -> None:
        """One statement for all that wait."""
        if not waiters:
            return
        ids = list({waiter.id for waiter in waiters})
        found: dict[UUID, JobRecord] = {}
        database = statements_on(source.connection)
        for start in range(0, len(ids), LOOK_AT_ONCE):
            found |= database.get_many(ids[start : start + LOOK_AT_ONCE])
        for waiter in waiters:
            waiter.look(found.get(waiter.id))

    def _report(self, error: Exception) -> None:
        """Those who have never seen their job are told; the others wait on, and claimers try by themselves."""
        with self.lock:
            unseen = [waiter for group in self.waiters.values() for waiter in group if not waiter.seen]
            alarms = [alarm for group in self.alarms.values() for alarm in group]
        for waiter in unseen:
            waiter.fail(error)
        for alarm in alarms:
            alarm.ring()

    def _is_needed(self) -> bool:
        with self.lock:
            return bool(self.alarms or self.waiters)

    def _leave_after(self, idle_since: float) -> bool:
        with self.lock:
            if self.alarms or self.waiters or time.monotonic() - idle_since < LINGER:
                return False
            self.thread = None
            return True

    def _drain_interrupts(self) -> None:
        try:
            os.read(self.interrupt_read, 4096)
        except BlockingIOError:
            pass


_listeners: dict[str, Listener] = {}
_lock = threading.Lock()


def listener() -> Listener:
    """This process's listener for the queue's database."""
    alias = config().database
    with _lock:
        if alias not in _listeners:
            _listeners[alias] = Listener(alias)
        return _listeners[alias]


def _forget() -> None:
    """A forked child has the table but not the threads."""
    global _lock
    _lock = threading.Lock()
    _listeners.clear()


os.register_at_fork(after_in_child=_forget)
