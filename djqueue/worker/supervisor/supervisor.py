"""Runs the worker processes, and the threads that keep their jobs safe, until a signal or an operator stops it.

It imports no code of the project, and its main thread never uses the database: neither tasks nor the database can delay
its reaction to a signal. The requests of operators are read by a background thread, and obeyed by the main thread.
"""

from __future__ import annotations

import mmap
import os
import signal
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import connection as multiprocessing
from types import FrameType
from typing import Any

from djqueue.core import registry
from djqueue.core.identity import identity
from djqueue.core.log import logger
from djqueue.lifecycle import announce
from djqueue.states import WorkerRequest
from djqueue.worker.forkserver import ForkServer, Ready
from djqueue.worker.options import Options
from djqueue.worker.os_process import start_over, title
from djqueue.worker.outages import AWAY
from djqueue.worker.reload import stop_signals

from .background import Background
from .children import EXIT_GRACE, Children, memory_for
from .crashes import CrashRecovery

INTERVAL = 0.25  # seconds between two checks of everything
IMPORT_WITHIN = 60.0
# How long the last heartbeat, and the last lines of the log, may take.
LAST_HEARTBEAT = 2.0

# What a worker process does: options, shared memory, its number and its pipe to the supervisor; returns the exit code.
Work = Callable[[Options, mmap.mmap, int, "multiprocessing.Connection[Any, Any]"], int]


class Supervisor:
    """The parent process."""

    def __init__(self, options: Options, work: Work) -> None:
        self.options = options
        self.work = work
        self.memory = memory_for(options)
        self.signals: list[int] = []
        self.obeyed = 0  # of these signals
        self.requests: deque[WorkerRequest] = deque()  # of operators, not yet obeyed
        self.drain_requested = False
        self.lost_forkserver = False
        self.lost_thread = ""

    def run(self, prepare: Callable[[], None] = lambda: None) -> int:
        """Work until stopped; return the exit code. `prepare` may use the database: it is called after the fork."""
        self.forkserver = ForkServer(partial(self.work, self.options, self.memory))
        # No thread of this process may block because its output is not read.
        logger.write_in_background()
        title(f"supervisor {self.options.name}".rstrip())
        if not self._wait_for_import():
            self.forkserver.close()
            return 1
        prepare()
        self.woken, self.waker = listen_to_signals(self.signals)
        self._make_parts()
        announce.relay_to(self.children.relay)
        self.background.start()
        self.crashes.start()
        while self.children.has_work and not self.lost_forkserver:
            self._turn()
        return self._finish()

    def _wait_for_import(self) -> bool:
        """Return whether the project could be imported; its own error is on the terminal."""
        try:
            if self.forkserver.events.poll(IMPORT_WITHIN):
                ready: Ready = self.forkserver.events.recv()
                registry.adopt(ready.tasks)
                self.schedules = ready.schedules
                return True
        except EOFError:
            logger.error("tasks of the project could not be imported")
            return False
        logger.error("tasks of the project not imported in time, restarting seconds=%d", IMPORT_WITHIN)
        os.kill(self.forkserver.pid, signal.SIGKILL)
        os.waitpid(self.forkserver.pid, 0)
        return start_over()

    def _make_parts(self) -> None:
        self.background = Background(
            self.options,
            lambda: self.children.held_jobs(),
            lambda: self.children.statuses(),
            lambda number, cancelled, lost: self.children.update_jobs(number, cancelled, lost),
            self._request,
            self._lose_thread,
            lambda: self.schedules,
            identity(),
        )
        self.crashes = CrashRecovery(self.background.outages, self._lose_thread)
        self.children = Children(self.options, self.memory, self.forkserver, self.background, self.crashes, self._wake)

    def _turn(self) -> None:
        children, events = self.children, self.forkserver.events
        children.start_missing()
        children.tend_quarantine()
        ready = multiprocessing.wait([events, self.woken], INTERVAL)
        if self.woken in ready:
            os.read(self.woken, 4096)
        children.read_messages()
        if events in ready:
            self._read_forkserver()
        self._obey_requests()
        self._obey_signals()
        children.check()
        children.send_signals()

    def _read_forkserver(self) -> None:
        try:
            while self.forkserver.events.poll():
                self.children.handle(self.forkserver.events.recv())
        except (EOFError, OSError):
            logger.error("fork server exited, restarting")
            self.lost_forkserver = True
            self.children.lose_all()

    def _obey_signals(self) -> None:
        for number in self.signals[self.obeyed :]:
            self.obeyed += 1
            reason = signal.Signals(number).name
            if not self.children.drain_until:
                self._drain_all(reason)
            elif self.drain_requested and self.obeyed == 1:  # a request to drain is not a first signal
                logger.info("draining already reason=%s", reason)
            else:
                logger.info("stopping immediately reason=%s", reason)
                self.children.kill_all()
        if self.lost_thread and not self.children.drain_until:
            self._drain_all(f"thread {self.lost_thread} has ended")

    def _obey_requests(self) -> None:
        """Obey the requests of operators. A drain is final: what follows it is ignored."""
        while self.requests:
            what = self.requests.popleft()
            if self.children.drain_until:
                continue
            if what is WorkerRequest.DRAIN:
                self.drain_requested = True
                self._drain_all("requested by an operator")
            else:
                self.children.be_quiet(what is WorkerRequest.QUIET)

    def _drain_all(self, reason: str) -> None:
        self.children.drain_all(reason)
        logger.info("stopping, draining all processes reason=%s", reason)

    def _finish(self) -> int:
        self.children.release_quarantined()
        self.forkserver.close()
        self.crashes.close(EXIT_GRACE)
        self.background.stop()
        # In a thread of its own, because the database may not respond; without this write, the heartbeats simply stop.
        last_heartbeat = threading.Thread(target=self._beat, daemon=True)
        last_heartbeat.start()
        last_heartbeat.join(LAST_HEARTBEAT)
        if self.lost_forkserver and not self.signals and not self.drain_requested:
            os.waitpid(self.forkserver.pid, 0)
            logger.flush(LAST_HEARTBEAT)
            start_over()
        code = 1 if len(self.signals) > 1 or self.lost_thread else 0
        if not logger.flush(LAST_HEARTBEAT):
            os._exit(code)  # the interpreter would wait until the output is read
        return code

    def _beat(self) -> None:
        with suppress(*AWAY):
            self.background.beat()

    # Called by other threads

    def _request(self, what: WorkerRequest) -> None:
        self.requests.append(what)
        self._wake()

    def _lose_thread(self, name: str) -> None:
        self.lost_thread = self.lost_thread or name
        self._wake()

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.write(self.waker, b"x")


def listen_to_signals(received: list[int]) -> tuple[int, int]:
    """Collect the signals that stop a worker; return a file that becomes readable then, and one to make it readable."""

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    readable, writable = os.pipe()
    for end in (readable, writable):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writable)
    for number in stop_signals():
        signal.signal(number, note)
    return readable, writable
