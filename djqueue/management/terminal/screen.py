"""A screen of the terminal that is redrawn in place, and given back as it was."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from .output import is_terminal, write

ENTER = "\x1b[?1049h\x1b[?25l"  # the alternate screen buffer, without the cursor
LEAVE = "\x1b[?25h\x1b[?1049l"
HOME = "\x1b[H"
TO_END_OF_LINE = "\x1b[K"
TO_END_OF_SCREEN = "\x1b[J"
LOOK_EVERY = 0.2  # seconds between two looks for a key or a new size
QUIT = b"qQ\x03"

Draw = Callable[[], list[str]]


class Screen:
    """The whole terminal, until the block is left, also by an exception or SIGTERM."""

    def __init__(self, stdout: Any) -> None:
        self.stdout = stdout
        self.keys: int | None = None  # the descriptor from which keys are read
        self.modes: Any = None
        self.handlers: dict[int, Any] = {}

    def __enter__(self) -> Screen:
        self._read_keys()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
                self.handlers[number] = signal.signal(number, _exit)
        self._write(ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        with suppress(OSError):  # the terminal may be gone
            self._write(LEAVE)
            if self.modes is not None and self.keys is not None:
                import termios

                termios.tcsetattr(self.keys, termios.TCSADRAIN, self.modes)
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        return kind is KeyboardInterrupt

    def show_until_quit(self, read: Callable[[], Draw], interval: float) -> None:
        """Read and draw again and again; draw at once when the size of the terminal changes."""
        while True:
            draw = read()
            end = time.monotonic() + interval
            size = self.draw(draw)
            while (left := end - time.monotonic()) > 0:
                if self._is_quit(min(left, LOOK_EVERY)):
                    return
                if shutil.get_terminal_size() != size:
                    size = self.draw(draw)

    def draw(self, draw: Draw) -> os.terminal_size:
        """Draw over the last frame, line by line, so that nothing flickers."""
        size = shutil.get_terminal_size()
        lines = draw()
        if len(lines) > size.lines:
            lines = [*lines[: size.lines - 1], f"… {len(lines) - size.lines + 1} more lines"]
        self._write(HOME + "\r\n".join(f"{line}{TO_END_OF_LINE}" for line in lines) + TO_END_OF_SCREEN)
        return size

    def _read_keys(self) -> None:
        if not is_terminal(sys.stdin):
            return
        try:
            import termios
            import tty
        except ImportError:  # not on Windows: Ctrl-C ends the screen
            return
        self.keys = sys.stdin.fileno()
        self.modes = termios.tcgetattr(self.keys)
        tty.setcbreak(self.keys)

    def _is_quit(self, seconds: float) -> bool:
        if self.keys is None:
            time.sleep(seconds)
            return False
        ready, _, _ = select.select([self.keys], [], [], seconds)
        if not ready:
            return False
        pressed = os.read(self.keys, 64)
        if not pressed:  # the terminal is closed
            return True
        return any(key in QUIT for key in pressed)

    def _write(self, text: str) -> None:
        write(self.stdout, text, ending="")
        self.stdout.flush()


def _exit(number: int, _: object) -> None:
    raise SystemExit(128 + number)
