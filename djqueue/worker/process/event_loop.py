"""The event loop that runs a process's coroutines."""

from __future__ import annotations

import asyncio
import concurrent.futures

from djqueue.core.log import logger
from djqueue.core.records import Settlement
from djqueue.lifecycle import settle
from djqueue.worker.threads import Fatal, VitalThread

from . import executor
from .completer import Completer
from .in_hand import Holding, Starter

BLOCKED_AFTER = 0.5  # seconds within which the loop responds unless a coroutine blocks it


class EventLoop:
    """One event loop, which runs a limited number of coroutines at once."""

    def __init__(self, limit: int, starter: Starter, completer: Completer, fatal: Fatal) -> None:
        self.starter = starter
        self.completer = completer
        self.limit = limit
        self.loop = asyncio.new_event_loop()
        self.tasks: dict[Holding, asyncio.Task[None]] = {}
        self.waiting: set[Holding] = set()  # those that have not started
        self.stopping = False
        self.thread = VitalThread(self._run, "djqueue-loop", fatal)

    def start(self) -> None:
        self.thread.start()

    def submit(self, holdings: list[Holding]) -> None:
        self.loop.call_soon_threadsafe(self._create_tasks, holdings)

    def cancel(self, holding: Holding) -> None:
        """Cancel the coroutine of a job whose cancel was requested."""
        self.loop.call_soon_threadsafe(self._cancel, holding)

    def take_back(self) -> list[Holding]:
        """Return what waits for its turn; nothing while a coroutine blocks the loop."""
        taken: concurrent.futures.Future[list[Holding]] = concurrent.futures.Future()
        self.loop.call_soon_threadsafe(self._take_back, taken)
        try:
            return taken.result(BLOCKED_AFTER)
        except TimeoutError:
            # Either it will not be done any more, or the result is about to come: what was taken must not be lost.
            return [] if taken.cancel() else taken.result()

    def _take_back(self, taken: concurrent.futures.Future[list[Holding]]) -> None:
        if taken.set_running_or_notify_cancel():
            waiting, self.waiting = self.waiting, set()
            for holding in waiting:
                if (task := self.tasks.pop(holding, None)) is not None:
                    task.cancel()
            taken.set_result(list(waiting))

    def stop(self) -> None:
        self.stopping = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(BLOCKED_AFTER)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.slots = asyncio.Semaphore(self.limit)
        while not self.stopping:
            try:
                self.loop.run_forever()
            except BaseException:  # SystemExit and KeyboardInterrupt raised in asyncio tasks of a job arrive here
                logger.exception("event loop stopped by a task, restarting")
        self.loop.close()

    def _create_tasks(self, holdings: list[Holding]) -> None:
        for holding in holdings:
            self.waiting.add(holding)
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
                # A cancel that was raised outside the task's own code, or something that should not happen: without an
                # outcome, the job would be held forever.
                cancelled = isinstance(error, asyncio.CancelledError) and holding.cancel_requested
                settlement = settle.cancel(holding.job) if cancelled else executor.failed(holding, error)
            finally:
                self.tasks.pop(holding, None)
        if settlement is not None:
            self.completer.report(holding, settlement)

    async def _execute(self, holding: Holding) -> Settlement | None:
        self.waiting.discard(holding)
        timeout = executor.timeout_of(holding)
        if not self.starter.start(holding, timeout):
            return None
        if holding.cancel_requested and not holding.job.cancel_requested:  # requested while this waited for its turn
            return settle.cancel(holding.job)
        return await executor.aexecute(holding, timeout)
