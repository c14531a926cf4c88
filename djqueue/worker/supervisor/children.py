"""The worker processes of a supervisor: started, watched, replaced, and settled when they exit."""

from __future__ import annotations

import mmap
import os
import random
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from djqueue.conf import config
from djqueue.core.log import logger
from djqueue.lifecycle.announce import Relayed
from djqueue.lifecycle.claim import ClaimedJob
from djqueue.lifecycle.crash import Left
from djqueue.worker.forkserver import Exited, Forked, ForkServer, NotForked
from djqueue.worker.held_jobs import HELD, Claim, HeldJobs, new_memory
from djqueue.worker.messages import QUARANTINE, Quiet, Report, Suspect, UpdateJobs
from djqueue.worker.options import Options

from .background import Background
from .child import Child
from .crashes import CrashRecovery, LeftBehind, left_behind
from .heartbeats import ProcessStatus
from .quarantine import Quarantine

READY_WITHIN = 60.0
# A process is killed if a task in it ignores its timeout for this many seconds.
TIMEOUT_GRACE = 3.0
# A process that has not exited this many seconds after SHUTDOWN_GRACE is killed.
EXIT_GRACE = 5.0
# For each wanted process, this many may drain while their successors work. Unused shared memory costs nothing.
SPARE = 20
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
# If there are too many suspects, the others are given back and may be claimed after this many seconds.
OVERFLOW_DELAY = (5.0, 15.0)
# A process that crashes earlier than this is not replaced immediately.
YOUNG = 5.0
STOPPED = "stopped"


def memory_for(options: Options) -> mmap.mmap:
    """Return the shared memory of all worker processes; make it before they are forked."""
    return new_memory(_count(options))


def _count(options: Options) -> int:
    return SPARE * (options.processes + 1)


class Children:
    """Used by the supervisor's main thread, but for the methods in the last section."""

    def __init__(
        self,
        options: Options,
        memory: mmap.mmap,
        forkserver: ForkServer,
        background: Background,
        crashes: CrashRecovery,
        wake: Callable[[], None],
    ) -> None:
        self.options = options
        self.forkserver = forkserver
        self.background = background
        self.crashes = crashes
        self.wake = wake  # the main thread
        self.wanted = options.processes
        self.free = [HeldJobs(memory, number) for number in range(_count(options))]
        self.quarantine = Quarantine(self.free.pop(QUARANTINE))
        self.all: list[Child] = []
        self.exited: deque[ProcessStatus] = deque(maxlen=100)
        self.unsent_signals: deque[Relayed] = deque(maxlen=10_000)
        self.quiet = False
        self.drain_until = 0.0
        self.pause = 0.0
        self.next_fork = 0.0

    @property
    def has_work(self) -> bool:
        return bool(self.wanted or self.all or (self.quarantine.waiting and not self.drain_until))

    # Start

    def start_missing(self) -> None:
        missing = self.wanted - sum(child.is_working for child in self.all if child is not self.quarantine.process)
        while missing > 0 and self.free and time.monotonic() >= self.next_fork:
            if self._start(self.free[0]) is None:
                return
            self.free.pop(0)
            missing -= 1
        if missing > 0 and not self.free and time.monotonic() >= self.next_fork:
            logger.error("not starting a process: too many are draining processes=%d", len(self.all))
            self.next_fork = time.monotonic() + LONGEST_PAUSE

    def _start(self, held_jobs: HeldJobs) -> Child | None:
        try:
            pipe = self.forkserver.fork(held_jobs.number)
        except (
            OSError
        ) as error:  # the fork server has exited, which will be noticed, or this process has too many open files
            self._not_started(str(error))
            return None
        child = Child(held_jobs, pipe, self.wake)
        child.send(Quiet(self.quiet))  # the first order, for which it waits before it claims
        self.all.append(child)
        return child

    def _not_started(self, error: str) -> None:
        logger.error("process could not be started error=%s", error)
        self.next_fork = time.monotonic() + LONGEST_PAUSE

    def tend_quarantine(self) -> None:
        """Run the suspects one at a time, in a process that exists only for them."""
        quarantine = self.quarantine
        is_idle = quarantine.send_next()
        if quarantine.process is None:
            if quarantine.waiting and not self.drain_until and time.monotonic() >= self.next_fork:
                quarantine.process = self._start(quarantine.held_jobs)
        elif quarantine.process.is_working and (is_idle or (self.options.burst and not quarantine.is_busy)):
            quarantine.process.drain("no suspects left")

    # Watch

    def read_messages(self) -> None:
        for child in self.all:
            self._read_messages(child)

    def _read_messages(self, child: Child) -> None:
        for message in child.messages():
            if isinstance(message, Suspect):
                self._quarantine(message.job)
            else:
                self._note(child, message)

    def _note(self, child: Child, report: Report) -> None:
        if child.status is None:
            child.status = ProcessStatus(report.identity, report.pid, quarantine=child is self.quarantine.process)
            logger.debug("process ready worker=%s pid=%d", report.identity, report.pid)
            self.background.beat_soon()
        if report.taken > child.taken:
            child.taken = report.taken
            self.quarantine.taken()
        child.status.finished, child.status.memory = report.finished, report.memory
        child.status.loops = report.loops
        if child.status.quiet != report.quiet:
            child.status.quiet = report.quiet
            self.background.beat_soon()
        child.status.draining = child.draining = child.draining or report.draining
        self.background.leases.progress.update(report.progress)
        if self.options.max_memory and report.memory > self.options.max_memory and not child.draining:
            child.drain("--max-memory exceeded")

    def _quarantine(self, job: ClaimedJob) -> None:
        """Run a suspect alone, or give it back if there are too many or the supervisor is stopping."""
        if self.drain_until:
            self.crashes.add(LeftBehind([Left(job.id, job.token)], "left behind"))
        elif not self.quarantine.add(job):
            left = Left(job.id, job.token, delay=random.uniform(*OVERFLOW_DELAY))
            self.crashes.add(LeftBehind([left], "too many jobs met a crash"))

    def check(self) -> None:
        """Kill processes that do not become ready, that ignore a timeout, or that do not exit when they should."""
        now = time.monotonic()
        for child in self.all:
            if child.killed_for:
                continue
            child.check_silence(now)
            if child.status is None and now - child.created_at > READY_WITHIN:
                logger.warning("process not ready, replaced pid=%d", child.pid)
                child.kill("not ready in time")
            if self.drain_until and now > self.drain_until:
                logger.warning("process does not exit, killed pid=%d", child.pid)
                child.kill(STOPPED)
            running = child.held_jobs.read(running=True)
            overdue = [entry for entry in running if entry.deadline and now > entry.deadline + TIMEOUT_GRACE]
            if overdue:
                child.blamed = frozenset(entry.claim[0] for entry in overdue)
                jobs = ",".join(map(str, child.blamed))
                logger.warning("timeout ignored, process replaced pid=%d jobs=%s", child.pid, jobs)
                child.kill("exceeded its timeout and could not be interrupted; its process was killed")

    # Stop

    def be_quiet(self, quiet: bool) -> None:
        """Let all processes stop claiming, also those that start later, or let them claim again."""
        self.quiet = quiet
        for child in self.all:
            child.send(Quiet(quiet))

    def drain_all(self, reason: str) -> None:
        """Start no more processes, and let the running ones exit."""
        self.wanted = 0
        self.send_signals()  # while there is a process that can do it
        self.drain_until = time.monotonic() + config().shutdown_grace + EXIT_GRACE
        for child in self.all:
            child.drain(reason, config().shutdown_grace)
        self.release_quarantined()

    def kill_all(self) -> None:
        for child in self.all:
            child.kill(STOPPED)

    def release_quarantined(self) -> None:
        """Give back the suspects that have not been run."""
        left = [Left(job.id, job.token) for job in self.quarantine.clear()]
        self.crashes.add(LeftBehind(left, "left behind"))

    # Exit

    def handle(self, event: Forked | NotForked | Exited) -> None:
        """Handle an event that the fork server reports."""
        match event:
            case Forked(number=number, pid=pid):
                child = self._numbered(number)
                child.pid = pid
                if child.killed_for:
                    child.kill("")
            case NotForked(number=number, error=error):
                self._give_up(self._numbered(number), error)
            case Exited(pid=pid, status=status):
                for child in [child for child in self.all if child.pid == pid]:
                    self._settle(child, status)

    def lose_all(self) -> None:
        """Handle the loss of the fork server: the kernel has killed its children, and no new ones can be forked.

        A task may have done that, so running jobs are blamed as in any other crash.
        """
        for child in list(self.all):
            if child.pid:
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)
            self._settle(child, signal.SIGKILL)

    def _numbered(self, number: int) -> Child:
        return next(child for child in self.all if child.held_jobs.number == number)

    def _settle(self, child: Child, status: int) -> None:
        """Settle what a process held that has exited, and make room for another process."""
        child.close()
        self._read_messages(child)
        self.all.remove(child)
        self.unsent_signals.extend(child.unsent_signals)
        entries = list(child.held_jobs.read())
        if child is self.quarantine.process:
            self.quarantine.lose_process(entries)
        # A job that it only held may have been handed over, and be held by the supervisor or another process already.
        elsewhere = {entry.claim for held_jobs in self.held_jobs() for entry in held_jobs.read()}
        entries = [entry for entry in entries if entry.state != HELD or entry.claim not in elsewhere]
        code = os.waitstatus_to_exitcode(status)
        left = left_behind(child, entries, code)
        self.crashes.add(left)
        running = sum(entry.running for entry in entries)
        if child.killed_for or (code == 0 and not running and (child.draining or self.options.burst)):
            if code == 0 and not child.draining:  # a burst is over
                self.wanted = max(0, self.wanted - 1)
        else:
            details = (left.reason, child.pid, running, len(entries))
            # Only the kernel's own log says that a process was killed because memory ran out.
            hint = " hint='out of memory, or killed by an operator'" if code == -signal.SIGKILL else ""
            logger.error("%s pid=%d running=%d held=%d%s", *details, hint)
            self._back_off(child)
        child.held_jobs.clear()
        if child.held_jobs is not self.quarantine.held_jobs:
            self.free.append(child.held_jobs)
        if child.status:
            child.status.stopped = True
            self.exited.append(child.status)
            self.background.beat_soon()

    def _give_up(self, child: Child, error: str) -> None:
        """Forget a process that could not be forked; another is tried later."""
        self._not_started(error)
        child.close()
        self.all.remove(child)
        if child is self.quarantine.process:
            self.quarantine.lose_process([])
        else:
            self.free.append(child.held_jobs)

    def _back_off(self, child: Child) -> None:
        """Wait longer and longer before the next start while processes die young."""
        young = time.monotonic() - child.created_at < YOUNG
        self.pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * self.pause)) if young else 0.0
        self.next_fork = time.monotonic() + self.pause

    # Signals of Django, sent by a worker process, which has the project's receivers

    def send_signals(self) -> None:
        for child in self.all:
            while child.status and not child.draining and child is not self.quarantine.process and self.unsent_signals:
                child.send_signal(self.unsent_signals.popleft())

    # Called by the background threads

    def relay(self, relayed: Relayed) -> None:
        """Let a worker process send a signal."""
        self.unsent_signals.append(relayed)
        self.wake()

    def held_jobs(self) -> list[HeldJobs]:
        return [self.quarantine.held_here, *(child.held_jobs for child in list(self.all))]

    def statuses(self) -> list[ProcessStatus]:
        living = [child for child in list(self.all) if child.status]
        now = time.monotonic()
        for child in living:
            assert child.status is not None
            child.status.running = sum(1 for _ in child.held_jobs.read(running=True))
            child.status.silent_for = now - child.last_message_at if child.silent else 0.0
        return [child.status for child in living if child.status] + list(self.exited)

    def update_jobs(self, number: int, cancelled: list[Claim], lost: list[Claim]) -> None:
        for child in list(self.all):
            if child.held_jobs.number == number:
                child.send_unless_full(UpdateJobs(cancelled, lost))
