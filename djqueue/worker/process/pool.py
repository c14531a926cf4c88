"""All that runs jobs in a worker process: the threads for plain functions, and the event loop for coroutines."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable

from django.db import close_old_connections

from djqueue.core.log import logger
from djqueue.core.records import Settlement
from djqueue.worker.os_process import end_if_forked
from djqueue.worker.outages import Outages
from djqueue.worker.threads import Fatal, VitalThread

from . import executor
from .budget import COROUTINES
from .completer import Completer
from .event_loop import EventLoop
from .in_hand import Holding, InHand, Starter
from .timeouts import Slot, Timeouts

Work = Holding | Callable[[], None]


class Pool:
    """Start, submit and stop for both kinds of jobs."""

    def __init__(
        self,
        threads: int,
        in_hand: InHand,
        completer: Completer,
        timed_out: Callable[[], None],
        outages: Outages,
        fatal: Fatal,
    ) -> None:
        self.completer = completer
        self.starter = Starter(in_hand, completer.give_back, outages, threads)
        self.threads = ThreadPool(threads, self.starter, completer, timed_out, fatal)
        self.loop = EventLoop(COROUTINES, self.starter, completer, fatal)

    def start(self) -> None:
        self.threads.start()
        self.loop.start()

    def submit(self, holdings: list[Holding]) -> None:
        """Run jobs. Coroutines are marked as started here: the event loop must not wait for the database."""
        coroutines = [holding for holding in holdings if holding.coroutine]
        if unmarked := [holding for holding in coroutines if not holding.marked]:
            self.starter.mark(unmarked)
            self.completer.give_back(holding for holding in unmarked if not holding.marked)
        if coroutines:
            self.loop.submit([holding for holding in coroutines if holding.marked])
        for holding in holdings:
            if not holding.coroutine:
                self.threads.submit(holding)

    def call(self, work: Callable[[], None]) -> None:
        """Call a function in one of the threads."""
        self.threads.submit(work)

    def cancel(self, holding: Holding) -> None:
        """Cancel the job if it is a running coroutine."""
        self.loop.cancel(holding)

    def take_back(self) -> list[Holding]:
        """Return the jobs that have not started; they will not be run here."""
        return self.threads.take_back() + self.loop.take_back()

    def stop(self, within: float) -> None:
        """Stop when everything has been called, or after this many seconds."""
        self.threads.stop(within)
        self.loop.stop()


class ThreadPool:
    """A fixed number of threads that take jobs, and calls of receivers, from one queue."""

    def __init__(
        self, count: int, starter: Starter, completer: Completer, timed_out: Callable[[], None], fatal: Fatal
    ) -> None:
        self.starter = starter
        self.completer = completer
        self.timed_out = timed_out  # called after a timeout was raised in a thread
        self.inbox: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self.timeouts = Timeouts(fatal)
        self.threads = [VitalThread(self._run, f"djqueue-run-{number}", fatal) for number in range(count)]

    def start(self) -> None:
        self.timeouts.start()
        for thread in self.threads:
            thread.start()

    def submit(self, work: Work) -> None:
        self.inbox.put(work)

    def take_back(self) -> list[Holding]:
        """Return the jobs that no thread has taken yet; other work stays in the queue."""
        found: list[Work | None] = []
        while True:
            try:
                found.append(self.inbox.get_nowait())
            except queue.Empty:
                break
        unstarted = []
        for work in found:
            if isinstance(work, Holding):
                unstarted.append(work)
            else:
                self.inbox.put(work)
        return unstarted

    def stop(self, within: float) -> None:
        """Stop when all work is done, or after this many seconds: a receiver may never return."""
        for _ in self.threads:
            self.inbox.put(None)
        deadline = time.monotonic() + within
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self.timeouts.stop()

    def _run(self) -> None:
        slot = Slot()
        self.timeouts.slots.append(slot)
        while (work := self._next()) is not None:
            if isinstance(work, Holding):
                self._run_job(work, slot)
            else:
                self._call(work)

    def _next(self) -> Work | None:
        try:
            return self.inbox.get_nowait()
        except queue.Empty:
            work = self.inbox.get()
            close_old_connections()  # the wait may have been long; after every job it is done by clean_up()
            return work

    def _call(self, work: Callable[[], None]) -> None:
        close_old_connections()
        try:
            with end_if_forked():
                work()
        except BaseException:  # a receiver may raise anything, also SystemExit; the thread continues
            logger.exception("sending signals failed")
        close_old_connections()  # it may have broken the connection that the next job would use

    def _run_job(self, holding: Holding, slot: Slot) -> None:
        settlement: Settlement | None = None
        try:
            timeout = executor.timeout_of(holding)
            if not self.starter.start(holding, timeout):
                return
            settlement = executor.execute(holding, self._within(slot, timeout) if timeout is not None else None)
        except BaseException as error:
            # Something that should not happen: without an outcome, the job would be held forever.
            settlement = settlement or executor.failed(holding, error)
        self.completer.report(holding, settlement)

    def _within(self, slot: Slot, seconds: float) -> executor.Within:
        return lambda work: self.timeouts.call(slot, seconds, work, self.timed_out)
