"""One thread per process, started on demand, that waits for claimable and finished jobs on behalf of all callers."""

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

from djqueue.conf import config
from djqueue.core.channels import ENDED, PENDING
from djqueue.core.log import logger
from djqueue.core.records import JobRecord, WaitOutcome
from djqueue.sql import statements_on
from djqueue.states import TERMINAL

from .rushes import Wakeup
from .wakeup_sources import ANYTHING, Source, answered_in_time, open_source

# Seconds without callers after which the connection is closed. It is short, because an open connection prevents a test
# database from being dropped.
LINGER = 0.5
IDS_PER_QUERY = 500
RECOVERED = 30.0  # seconds of service after which earlier failures no longer count


class Watcher:
    """A caller to wake up. The listener's thread calls `wake`, so it must not block."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._callback = wake
        self.queues: set[str | None] = set()  # notified since the last `take_queues`; None for any

    def take_queues(self) -> set[str | None]:
        """Return the queues that were notified since the last call; None stands for any."""
        queues, self.queues = self.queues, set()
        return queues

    def wake(self) -> None:
        try:
            self._callback()
        except RuntimeError:
            logger.debug("waiting caller is gone")  # its event loop was closed in the meantime


class Waiter(Watcher):
    """A caller that waits for a job to finish. `seen` is set by the first query, `outcome` when the wait is over."""

    def __init__(self, job_id: UUID, wake: Callable[[], None]) -> None:
        super().__init__(wake)
        self.id = job_id
        self.seen = False
        self.record: JobRecord | None = None
        self.outcome: WaitOutcome | None = None
        self.error: Exception | None = None

    def update(self, record: JobRecord | None) -> None:
        """Record the current state of the job; None if it has no row."""
        if record is not None and record.status in TERMINAL:
            self.outcome = WaitOutcome(completed=True, record=record)
        elif record is None:
            # A job that was seen before and no longer has a row has finished, and is not kept.
            self.outcome = WaitOutcome(completed=True) if self.seen else WaitOutcome(not_found=True)
        self.record = record
        self.seen = True
        self.wake()

    def fail(self, error: Exception) -> None:
        self.error = error
        self.wake()


class Listener:
    """The thread, its source of wake-ups, and the callers that wait."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.lock = threading.Lock()
        self.watchers: dict[Wakeup, set[Watcher]] = defaultdict(set)  # by channel and queue; None for any
        self.waiters: dict[UUID, set[Waiter]] = defaultdict(set)
        self.thread: threading.Thread | None = None
        self.kind = ""  # of the source, while it is open
        self.interrupt_read, self.interrupt_write = os.pipe()
        os.set_blocking(self.interrupt_read, False)
        os.set_blocking(self.interrupt_write, False)

    @property
    def is_well(self) -> bool:
        """True while a wake-up source is open, so callers need not poll."""
        return bool(self.kind)

    @contextmanager
    def watching(self, queue: str | None, wake: Callable[[], None], channel: str = PENDING) -> Iterator[Watcher]:
        """Call `wake` whenever jobs of the queue, or of any, may be claimable, or whenever the channel is notified."""
        watcher = Watcher(wake)
        with self._registered(self.watchers, (channel, queue), watcher):
            yield watcher

    @contextmanager
    def waiting(self, job_id: UUID, wake: Callable[[], None]) -> Iterator[Waiter]:
        """Call `wake` after the first query for the job, and when it has finished."""
        waiter = Waiter(job_id, wake)
        with self._registered(self.waiters, job_id, waiter):
            yield waiter

    @contextmanager
    def _registered(self, table: dict, key: object, caller: Watcher) -> Iterator[None]:  # type: ignore[type-arg]
        try:
            with self.lock:
                table[key].add(caller)
                if self.thread is None or not self.thread.is_alive():
                    self.thread = None
                    thread = threading.Thread(target=self._run, name=f"djqueue-listener-{self.alias}", daemon=True)
                    thread.start()
                    self.thread = thread
            self.interrupt()
            yield
        finally:
            with self.lock:
                table[key].discard(caller)
                if not table[key]:
                    del table[key]
            self.interrupt()

    def interrupt(self) -> None:
        try:
            os.write(self.interrupt_write, b"x")
        except BlockingIOError:
            pass  # the pipe is full: the thread wakes up anyway

    def _run(self) -> None:
        failures = 0
        while True:
            began = time.monotonic()
            try:
                if self._serve():
                    return
            except Exception as error:
                failures = failures + 1 if time.monotonic() - began < RECOVERED else 1
                level = logging.WARNING if failures == 1 else logging.DEBUG  # once for an outage
                details = (self.alias, str(error).partition("\n")[0])
                logger.log(level, "listener lost its connection database=%s error=%s", *details)
                self._report(error)
                if self._leave_after(-math.inf):
                    return
                time.sleep(min(5.0, 0.1 * 2 ** min(failures, 6)) * random.uniform(0.5, 1.0))

    def _serve(self) -> bool:
        """Serve callers until there have been none for a while; return False if a better source should be tried."""
        source = open_source(self.alias, self.interrupt_read)
        try:
            source.listen_to(self._channels())
            self.kind = source.kind
            # Commits made before the source was open sent no wake-up.
            self._react(source, ANYTHING)
            idle_since = time.monotonic()
            while True:
                if self._is_needed():
                    idle_since = time.monotonic()
                elif self._leave_after(idle_since):
                    return True
                if time.monotonic() >= source.reopen_at:
                    return False
                # A caller that has come meanwhile may need another channel, and may have missed something there.
                if missed := source.listen_to(self._channels()):
                    self._react(source, missed)
                wakeups = source.wait(LINGER if not self._is_needed() else 60.0)
                self._drain_interrupts()
                self._react(source, wakeups)
        finally:
            self.kind = ""
            source.close()

    def _react(self, source: Source, wakeups: Iterable[Wakeup]) -> None:
        """Wake the callers of the notified queues, and query the jobs that callers wait for."""
        received = set(wakeups)
        channels = {channel for channel, _ in received}
        ended = ENDED in channels
        with self.lock:
            watchers = []
            for (channel, queue), group in self.watchers.items():
                if (channel in channels) if queue is None else ({(channel, queue), (channel, None)} & received):
                    queues = {name for source_channel, name in received if source_channel == channel}
                    for watcher in group:
                        watcher.queues |= queues
                        watchers.append(watcher)
            waiters = [
                waiter
                for group in self.waiters.values()
                for waiter in group
                if waiter.outcome is None and (ended or not waiter.seen)
            ]
        for watcher in watchers:
            watcher.wake()
        self._query(source, waiters)

    def _query(self, source: Source, waiters: list[Waiter]) -> None:
        """Query the jobs of all waiters together."""
        if not waiters:
            return
        ids = list({waiter.id for waiter in waiters})
        found: dict[UUID, JobRecord] = {}
        database = statements_on(source.connection)
        for start in range(0, len(ids), IDS_PER_QUERY):
            with answered_in_time(source.connection):
                found |= database.get_many(ids[start : start + IDS_PER_QUERY])
        for waiter in waiters:
            waiter.update(found.get(waiter.id))

    def _report(self, error: Exception) -> None:
        """Pass the error to waiters that have not seen their job; other waiters continue, and watchers wake up."""
        with self.lock:
            unseen = [waiter for group in self.waiters.values() for waiter in group if not waiter.seen]
            watchers = [watcher for group in self.watchers.values() for watcher in group]
        for waiter in unseen:
            waiter.fail(error)
        for watcher in watchers:
            watcher.wake()

    def _channels(self) -> set[str]:
        """Return the channels that callers wait for."""
        with self.lock:
            channels = {channel for channel, _ in self.watchers}
            return channels | {ENDED} if self.waiters else channels

    def _is_needed(self) -> bool:
        with self.lock:
            return bool(self.watchers or self.waiters)

    def _leave_after(self, idle_since: float) -> bool:
        with self.lock:
            if self.watchers or self.waiters or time.monotonic() - idle_since < LINGER:
                return False
            self.thread = None
            return True

    def _drain_interrupts(self) -> None:
        try:
            os.read(self.interrupt_read, 4096)
        except BlockingIOError:
            pass  # the pipe is empty


_listeners: dict[str, Listener] = {}
_lock = threading.Lock()


def listener() -> Listener:
    """Return the listener of this process for the queue's database."""
    alias = config().database
    with _lock:
        if alias not in _listeners:
            _listeners[alias] = Listener(alias)
        return _listeners[alias]


def _forget() -> None:
    """Drop the listeners in a forked child, which has none of their threads."""
    global _lock
    _lock = threading.Lock()
    _listeners.clear()


os.register_at_fork(after_in_child=_forget)
