"""A command in a terminal of its own: its output as it comes, keys typed, Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.packaging.tutorial.output import compare, missing_line, plain
from tests.packaging.tutorial.page import PageError

PATIENCE = 120.0


class Terminal:
    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.received = b""
        self.expected = 0  # lines
        self.news = threading.Condition()
        self.ended = False
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        while True:
            data = b""
            with suppress(OSError):  # how Linux reports that no process has the terminal any more
                data = os.read(self.master, 65536)
            with self.news:
                self.received += data
                self.ended = not data
                self.news.notify_all()
            if not data:
                return

    def output(self, start: int = 0) -> str:
        return plain(self.received[start:].decode(errors="replace"))

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        """Wait until the output meets a condition; whether it does, at the latest when the command has ended."""
        deadline = time.monotonic() + PATIENCE
        with self.news:
            while not condition() and not self.ended and (left := deadline - time.monotonic()) > 0:
                self.news.wait(left)
            return condition()

    def expect(self, shown: Sequence[str], start: int = 0) -> None:
        """Wait until all the lines have come."""
        if not self.wait_for(lambda: missing_line(shown, self.output(start)) is None):
            line = missing_line(shown, self.output(start))
            raise PageError(f"the output has no line {line!r} where the page shows it:\n{self.output(start)}")

    def expect_next(self, shown: Sequence[str]) -> None:
        """Wait until all the lines have come, after those that were expected before."""
        real: list[str] = []

        def missing() -> str | None:
            real[:] = self.output().splitlines()[self.expected :]
            return compare(shown, real)[0]

        if not self.wait_for(lambda: missing() is None):
            raise PageError(f"the output has no line {missing()!r} where the page shows it:\n{self.output()}")
        self.expected += compare(shown, real)[1]

    def type(self, text: str, prompts: tuple[str, ...]) -> str:
        """Type a line, and return what comes before the next prompt."""
        start = len(self.received)
        os.write(self.master, f"{text}\n".encode())
        if not self.wait_for(lambda: "\n" in self.output(start) and self.output(start).endswith(prompts)):
            raise PageError(f"no prompt after {text!r}:\n{self.output(start)}")
        return self.output(start)

    def press(self, key: bytes) -> None:
        with suppress(OSError):
            os.write(self.master, key)

    def interrupt(self, shown: Sequence[str] = ()) -> None:
        """Press Ctrl-C; the command must then exit with 0."""
        start = len(self.received)
        self.press(b"\x03")
        self.leave()
        self.expect(shown, start)

    def leave(self) -> None:
        """Wait for the end of the command."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise PageError(f"the command does not end:\n{self.output()}") from None
        finally:
            self.close()
        if code != 0:
            raise PageError(f"exited with {code}:\n{self.output()}")

    def close(self) -> None:
        """End whatever still runs in this terminal."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.reader.join(PATIENCE)
        if self.master >= 0 and not self.reader.is_alive():
            os.close(self.master)
            self.master = -1
