"""Starts, watches and replaces worker processes, keeps their leases and settles what the dead among them held.

It runs no code of the project's, and its main thread never talks to the database: a signal is obeyed whatever the
database and the tasks are doing.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import connection as multiprocessing
from types import FrameType
from typing import Any

from djqueue import registry
from djqueue.conf import config
from djqueue.identity import identity
from djqueue.lifecycle import announce

from .board import Board, Claim, new_memory
from .child import work
from .heartbeats import Life
from .kinship import start_over, title
from .options import Options
from .pulse import AWAY
from .recovery import Estate, Recovery
from .template import Exited, Forked, Ready, Template
from .upkeep import Upkeep
from .watched import Watched

logger = logging.getLogger("djqueue")

TURN = 0.25  # seconds between two looks at everything
READY_WITHIN = 60.0
# A task that ignores its timeout for so long costs its process.
TIMEOUT_GRACE = 3.0
# So long after SHUTDOWN_GRACE a process that has not ended is killed.
LAST_WORDS = 5.0
# A board that nobody writes on costs no memory.
SPARE_BOARDS = 20
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
STOPPED = "stopped"


class Supervisor:
    """The parent of it all."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.wanted = options.processes
        # Those that drain keep their boards while their successors work.
        count = SPARE_BOARDS * (options.processes + 1)
        self.memory = new_memory(count)
        self.boards = [Board(self.memory, number) for number in range(count)]
        self.children: list[Watched] = []
        self.ended: deque[Life] = deque(maxlen=100)
        self.unsaid: deque[tuple[Any, ...]] = deque(maxlen=10_000)  # announcements that no process has taken yet
        self.signals: list[int] = []
        self.obeyed = 0
        self.drain_until = 0.0
        self.pause = 0.0
        self.next_fork = 0.0
        self.lost_template = False

    def run(self, prepare: Callable[[], None] = lambda: None) -> int:
        """Work until told to end; gives the exit code. `prepare` may use the database: it comes after the fork."""
        self.template = Template(partial(work, self.options, self.memory))
        title(f"supervisor {self.options.name}".rstrip())
        if not self._wait_for_template():
            return 1
        prepare()
        self.wakeup, self.bell = listen_to_signals(self.signals)
        self.upkeep = Upkeep(
            self.options, self._living_boards, self._lives, self._tell, lambda: self.schedules, identity()
        )
        self.recovery = Recovery(self.upkeep.pulse)
        announce.through(self._relay)
        self.upkeep.start()
        self.recovery.start()
        while (self.wanted or self.children) and not self.lost_template:
            self._turn()
        return self._finish()

    def _wait_for_template(self) -> bool:
        """Whether the project could be imported; its own error is on the terminal."""
        try:
            if self.template.news.poll(READY_WITHIN):
                ready: Ready = self.template.news.recv()
                registry.adopt(ready.tasks)
                self.schedules = ready.schedules
                return True
        except EOFError:
            logger.error("the tasks of the project could not be imported")
            return False
        logger.error("the tasks of the project were not imported within %d seconds, starting over", READY_WITHIN)
        os.kill(self.template.pid, signal.SIGKILL)
        os.waitpid(self.template.pid, 0)
        return start_over()

    # The loop

    def _turn(self) -> None:
        self._start_missing()
        ready = multiprocessing.wait([self.template.news, self.wakeup], TURN)
        if self.wakeup in ready:
            os.read(self.wakeup, 4096)
        for child in self.children:
            self._hear(child)
        if self.template.news in ready:
            self._hear_template()
        self._obey_signals()
        self._look_after()
        self._say()

    def _start_missing(self) -> None:
        working = sum(not (child.draining or child.killed_for) for child in self.children)
        while working < self.wanted and self.boards and time.monotonic() >= self.next_fork:
            try:
                link = self.template.fork(self.boards[0].number)
            except OSError as error:  # it is gone, which will be noticed, or we have too many files
                logger.error("no process could be started error=%s", error)
                self.next_fork = time.monotonic() + LONGEST_PAUSE
                return
            self.children.append(Watched(self.boards.pop(0), link, self._ring))
            working += 1
        if working < self.wanted and not self.boards and time.monotonic() >= self.next_fork:
            logger.error("too many processes drain, none is started processes=%d", len(self.children))
            self.next_fork = time.monotonic() + LONGEST_PAUSE

    def _hear(self, child: Watched) -> None:
        for report in child.reports():
            if child.life is None:
                child.life = Life(report.identity, report.pid)
                logger.debug("process ready worker=%s pid=%d", report.identity, report.pid)
                self.upkeep.beat_soon()
            life = child.life
            life.running, life.finished, life.memory = report.running, report.finished, report.memory
            life.draining = child.draining = child.draining or report.draining
            self.upkeep.leases.progress.update(report.progress)
            if self.options.max_memory and report.memory > self.options.max_memory and not child.draining:
                life.draining = child.draining = True
                child.send("drain", "it has passed --max-memory")

    def _hear_template(self) -> None:
        try:
            while self.template.news.poll():
                match self.template.news.recv():
                    case Forked(number=number, pid=pid):
                        child = next(child for child in self.children if child.board.number == number)
                        child.pid = pid
                        if child.killed_for:
                            child.kill("")
                    case Exited(pid=pid, status=status):
                        for child in [child for child in self.children if child.pid == pid]:
                            self._bury(child, status)
        except (EOFError, OSError):
            self._lose_template()

    def _obey_signals(self) -> None:
        for number in self.signals[self.obeyed :]:
            self.obeyed += 1
            reason = signal.Signals(number).name
            if self.obeyed == 1:
                logger.info("stopping reason=%s draining", reason)
                self.wanted = 0
                self._say()  # while there is somebody to do it
                self.drain_until = time.monotonic() + config().shutdown_grace + LAST_WORDS
                for child in self.children:
                    child.draining = True
                    child.send("drain", reason, config().shutdown_grace)
            else:
                logger.info("stopping reason=%s at once", reason)
                for child in self.children:
                    child.kill(STOPPED)

    def _look_after(self) -> None:
        """Kill what does not get ready, what ignores a timeout, and what does not end when it should."""
        now = time.monotonic()
        for child in self.children:
            if child.killed_for:
                continue
            if child.life is None and now - child.born_at > READY_WITHIN:
                logger.warning("process not ready, replaced pid=%d", child.pid)
                child.kill("not ready in time")
            if self.drain_until and now > self.drain_until:
                logger.warning("process does not end, killed pid=%d", child.pid)
                child.kill(STOPPED)
            overdue = [entry for entry in child.board.read() if entry.deadline and now > entry.deadline + TIMEOUT_GRACE]
            if overdue:
                child.blamed = frozenset(entry.claim[0] for entry in overdue)
                jobs = ",".join(map(str, child.blamed))
                logger.warning("timeout ignored, process replaced pid=%d jobs=%s", child.pid, jobs)
                child.kill("ran past its timeout and could not be interrupted: its process was killed")

    # Ends

    def _bury(self, child: Watched, status: int) -> None:
        """Settle what it held, and make room for another."""
        child.close()
        self._hear(child)
        self.children.remove(child)
        self.unsaid.extend(child.unanswered)
        entries = list(child.board.read())
        child.board.wipe()
        self.boards.append(child.board)
        code = os.waitstatus_to_exitcode(status)
        if child.life:
            child.life.stopped = True
            self.ended.append(child.life)
            self.upkeep.beat_soon()
        if code == 0:
            self.recovery.add(Estate(entries, frozenset(), "left behind", crashed=False))
            if self.options.burst and not child.draining:
                self.wanted = max(0, self.wanted - 1)
        elif child.killed_for:
            self.recovery.add(Estate(entries, child.blamed, child.killed_for, crashed=False))
        else:
            reason = "worker process " + (f"killed by signal {-code}" if code < 0 else f"exited with code {code}")
            running = frozenset(entry.claim[0] for entry in entries if entry.running)
            logger.error("%s pid=%d running=%d held=%d", reason, child.pid, len(running), len(entries))
            self.recovery.add(Estate(entries, running, reason, crashed=True))
            self._back_off(child)

    def _back_off(self, child: Watched) -> None:
        """Processes that die young are not started again at once, over and over."""
        young = time.monotonic() - child.born_at < 1.0
        self.pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * self.pause)) if young else 0.0
        self.next_fork = time.monotonic() + self.pause

    def _lose_template(self) -> None:
        """Without it there are no new processes, and the kernel has killed those that it had made."""
        logger.error("template process gone, starting over")
        self.lost_template = True
        for child in list(self.children):
            if child.pid:
                with suppress(ProcessLookupError):
                    child.kill("the template process is gone")
            child.killed_for = "the template process is gone"
            self._bury(child, signal.SIGKILL)

    def _finish(self) -> int:
        self.template.close()
        self.recovery.close(LAST_WORDS)
        self.upkeep.stop()
        try:
            self.upkeep.beat()
        except AWAY:
            pass  # their heartbeats stop, which says the same
        if self.lost_template and not self.signals:
            os.waitpid(self.template.pid, 0)
            start_over()
        return 1 if len(self.signals) > 1 else 0

    # What the upkeep asks and tells, from its own threads

    def _living_boards(self) -> list[Board]:
        return [child.board for child in list(self.children)]

    def _lives(self) -> list[Life]:
        return [child.life for child in list(self.children) if child.life] + list(self.ended)

    def _tell(self, number: int, cancelled: list[Claim], lost: list[Claim]) -> None:
        for child in list(self.children):
            if child.board.number == number:
                child.tell("hear", cancelled, lost)

    def _relay(self, *news: Any) -> None:
        self.unsaid.append(news)
        self._ring()

    def _ring(self) -> None:
        with suppress(BlockingIOError):
            os.write(self.bell, b"x")

    def _say(self) -> None:
        """Have announcements made by a worker process, which has the project's receivers."""
        for child in self.children:
            while child.life and not child.draining and self.unsaid:
                child.relay(self.unsaid.popleft())


def listen_to_signals(received: list[int]) -> tuple[int, int]:
    """Note TERM and INT; gives a file that becomes readable then, and one to make it readable."""

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    readable, writable = os.pipe()
    for end in (readable, writable):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writable)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note)
    return readable, writable
