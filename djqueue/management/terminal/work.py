"""Long work in batches: confirmed, paced, with progress, and stopped by Ctrl-C between two batches."""

from __future__ import annotations

import signal
import sys
import threading
import time
from argparse import ArgumentParser
from types import TracebackType
from typing import Any

from djqueue.core.durations import short

from .output import Output, is_terminal, terminal_width, write

REPORT_EVERY = 5.0  # seconds between two lines of progress in a pipe
DRAW_EVERY = 0.1
# Seconds of pause per second of work: at most a third of the time is spent in the database. See benchmarks/requeue.py.
PAUSE_RATIO = 2.0
LONGEST_PAUSE = 2.0
BAR = 30  # characters
REFUSED = 1


def add_yes(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def confirm(output: Output, question: str, options: dict[str, Any]) -> bool:
    """Ask on the terminal; without one, refuse."""
    if options["yes"]:
        return True
    if not is_terminal(sys.stdin):
        output.note(f"{question} There is no terminal to confirm this. Nothing was changed. Repeat it with --yes.")
        return False
    try:
        write(output.stderr, f"{question} [y/N] ", ending="")
        output.stderr.flush()
        agreed = sys.stdin.readline().strip().lower() in ("y", "yes")
    except KeyboardInterrupt:
        output.note("")
        agreed = False
    if not agreed:
        output.note("Nothing was changed.")
    return agreed


class Work:
    """Batches of work under way. After each, `step` pauses in proportion to its time, so that workers keep up.

    The first Ctrl-C lets the batch finish, the second interrupts it.
    """

    def __init__(self, output: Output, total: int, done_word: str) -> None:
        self.output = output
        self.total = total
        self.done_word = done_word
        self.done = 0
        self.bar = is_terminal(output.stderr)
        self.stop = threading.Event()

    @property
    def interrupted(self) -> bool:
        return self.stop.is_set()

    def __enter__(self) -> Work:
        self.started = self.batch_started = self.shown = time.monotonic()
        self.before: Any = None
        if threading.current_thread() is threading.main_thread():  # other threads cannot set handlers
            self.before = signal.signal(signal.SIGINT, self._interrupt)
        self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)
        if self.bar:
            self._write("\r\x1b[K")

    def step(self, count: int) -> bool:
        """Count a batch that is finished, pause, and return whether to go on."""
        now = time.monotonic()
        self.done += count
        if now - self.shown >= (DRAW_EVERY if self.bar else REPORT_EVERY):
            self.shown = now
            self._draw()
        if self.done < self.total:
            self.stop.wait(min(PAUSE_RATIO * (now - self.batch_started), LONGEST_PAUSE))
        self.batch_started = time.monotonic()
        return not self.interrupted

    def _interrupt(self, *_: object) -> None:
        self.stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _draw(self) -> None:
        text = f"{self.done:,} of {self.total:,} {self.done_word}"
        if not self.bar:
            if self.done:
                self.output.note(text)
            return
        share = min(1.0, self.done / self.total) if self.total else 1.0
        filled = round(share * BAR)
        line = f"[{'#' * filled}{'-' * (BAR - filled)}] {share:4.0%} {text}{self._rest()}"
        self._write(f"\r{line[: terminal_width() - 1]}\x1b[K")

    def _rest(self) -> str:
        elapsed = time.monotonic() - self.started
        if not self.done or elapsed < 1:
            return ""
        left = (self.total - self.done) * elapsed / self.done
        return f", {short(left)} left" if left >= 1 else ""

    def _write(self, text: str) -> None:
        write(self.output.stderr, text, ending="")
        self.output.stderr.flush()
