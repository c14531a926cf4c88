"""The hands: threads that run plain functions, and one event loop for coroutines."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable

from django.db import close_old_connections, connections

from djqueue import registry
from djqueue.conf import config
from djqueue.current import Holding
from djqueue.durations import seconds
from djqueue.exceptions import TaskTimeout
from djqueue.lifecycle import settle
from djqueue.lifecycle.claim import ClaimedJob
from djqueue.records import Settlement

from . import executor
from .timeouts import Slot, Timeouts

logger = logging.getLogger("djqueue")

BLOCKED_AFTER = 0.5  # seconds in which a loop answers that is not held up

Started = Callable[[Holding, float | None], None]
Report = Callable[[Holding, Settlement], None]
Work = Holding | Callable[[], None]


def timeout_of(job: ClaimedJob) -> float | None:
    """The call's timeout, else the task's, the queue's, the default."""
    options = registry.options(job.task)
    for value in (job.row.timeout, options.timeout, config().queue(job.queue).timeout, config().timeout):
        if value is not None:
            return seconds(value, "timeout")
    return None


class Threads:
    """A fixed number of threads that take holdings, and other small work, from one inbox."""

    def __init__(self, count: int, started: Started, report: Report, injured: Callable[[], None]) -> None:
        self.started = started
        self.report = report
        self.injured = injured
        self.inbox: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self.timeouts = Timeouts()
        self.threads = [
            threading.Thread(target=self._run, name=f"djqueue-run-{number}", daemon=True) for number in range(count)
        ]

    def start(self) -> None:
        self.timeouts.start()
        for thread in self.threads:
            thread.start()

    def submit(self, work: Work) -> None:
        self.inbox.put(work)

    def take_back(self) -> list[Holding]:
        """What nobody has begun; announcements stay where they are."""
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
        """End when all announcements are made, or after so many seconds: a receiver may never return."""
        for _ in self.threads:
            self.inbox.put(None)
        deadline = time.monotonic() + within
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self.timeouts.stop()

    def _run(self) -> None:
        slot = Slot()
        self.timeouts.slots.append(slot)
        try:
            while (work := self.inbox.get()) is not None:
                if isinstance(work, Holding):
                    self._run_job(work, slot)
                else:
                    self._announce(work)
        finally:
            connections.close_all()

    def _announce(self, work: Callable[[], None]) -> None:
        close_old_connections()
        try:
            work()
        except BaseException:  # what a receiver raises, SystemExit too, is not the end of this thread
            logger.exception("announcing failed")

    def _run_job(self, holding: Holding, slot: Slot) -> None:
        settlement: Settlement | None = None
        try:
            timeout = timeout_of(holding.job)
            self.started(holding, timeout)
            with self.timeouts.limit(slot, timeout, self.injured):
                settlement = executor.execute(holding)
        except BaseException as error:
            # A timeout that was raised after the end of the task, or something that should not happen: whatever it is,
            # a job without an outcome would be held for ever.
            settlement = settlement or settle.nack(holding.job, error)
        self.report(holding, settlement)


class Loop:
    """The event loop of this process's coroutines, with a bound of its own."""

    def __init__(self, bound: int, started: Started, report: Report) -> None:
        self.started = started
        self.report = report
        self.bound = bound
        self.loop = asyncio.new_event_loop()
        self.tasks: dict[Holding, asyncio.Task[None]] = {}
        self.stopping = False
        self.thread = threading.Thread(target=self._run, name="djqueue-loop", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def submit(self, holding: Holding) -> None:
        self.loop.call_soon_threadsafe(self._begin, holding)

    def cancel(self, holding: Holding) -> None:
        """Cancel the coroutine of a job that should end."""
        self.loop.call_soon_threadsafe(self._cancel, holding)

    def take_back(self) -> list[Holding]:
        """What waits for a place in the loop; nothing while a coroutine holds it up."""
        asked = asyncio.run_coroutine_threadsafe(self._take_back(), self.loop)
        try:
            return asked.result(BLOCKED_AFTER)
        except TimeoutError:
            asked.cancel()
            return []

    async def _take_back(self) -> list[Holding]:
        unstarted = [holding for holding in self.tasks if not holding.started]
        for holding in unstarted:
            self.tasks.pop(holding).cancel()
        return unstarted

    def stop(self) -> None:
        self.stopping = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(BLOCKED_AFTER)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.slots = asyncio.Semaphore(self.bound)
        while not self.stopping:
            try:
                self.loop.run_forever()
            except BaseException:  # SystemExit and KeyboardInterrupt of a task's own tasks come up here
                logger.exception("the event loop was stopped by a task, and goes on")
        self.loop.close()

    def _begin(self, holding: Holding) -> None:
        self.tasks[holding] = self.loop.create_task(self._run_job(holding))

    def _cancel(self, holding: Holding) -> None:
        if holding in self.tasks and holding.started:
            self.tasks[holding].cancel()

    async def _run_job(self, holding: Holding) -> None:
        async with self.slots:
            settlement: Settlement | None = None
            try:
                settlement = await self._execute(holding)
            except BaseException as error:
                # A cancel that came beside the task's own code, or something that should not happen: whatever it is, a
                # job without an outcome would be held for ever.
                cancelled = isinstance(error, asyncio.CancelledError) and holding.cancel_requested
                settlement = settle.cancel(holding.job) if cancelled else settle.nack(holding.job, error)
            finally:
                self.tasks.pop(holding, None)
        self.report(holding, settlement)

    async def _execute(self, holding: Holding) -> Settlement:
        timeout = timeout_of(holding.job)
        self.started(holding, timeout)
        if holding.cancel_requested and not holding.job.cancel_requested:  # it came while this waited for its place
            return settle.cancel(holding.job)
        try:
            async with asyncio.timeout(timeout) as limit:
                settlement = await executor.aexecute(holding)
            if not limit.expired():
                return settlement
        except TimeoutError:
            pass
        return settle.nack(holding.job, TaskTimeout("ran past its timeout"))
