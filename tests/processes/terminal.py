"""The real command, in a process of its own: in a pipe, or on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from typing import Any

from django.db import connections


class Command:
    def __init__(self, database: str) -> None:
        name = str(connections[database].settings_dict["NAME"])
        self.argv = [sys.executable, "-W", "error", "-m", "tests.processes.djqueue_command", database, name]
        self.env = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings", "TERM": "xterm"}
        for variable in ("COLUMNS", "LINES", "NO_COLOR"):
            self.env.pop(variable, None)

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run it in a pipe, without a terminal."""
        return subprocess.run(
            [*self.argv, *map(str, arguments)],
            env=self.env | options.pop("env", {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen([*self.argv, *map(str, arguments)], env=self.env, text=True, **options)


class Terminal:
    """The command on a terminal: what it writes, and what is typed."""

    def __init__(
        self, command: Command, *arguments: str, env: dict[str, str] | None = None, size=(24, 80), cwd: Any = None
    ) -> None:
        self.master, slave = pty.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            [*command.argv, *map(str, arguments)],
            env=command.env | (env or {}),
            cwd=cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.slave = slave  # kept open, so that what was written can be read after the exit
        self.written = ""

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def read(self, seconds: float = 0.05) -> str:
        while select.select([self.master], [], [], seconds)[0]:
            self.written += os.read(self.master, 65536).decode(errors="replace")
            seconds = 0
        return self.written

    def wait_for(self, text: str, seconds: float = 60, after: int = 0) -> int:
        """Wait until a text was written, and return where it ends."""
        deadline = time.monotonic() + seconds
        while (found := self.read().find(text, after)) < 0:
            assert time.monotonic() < deadline, f"{text!r} was not written: {self.written[-2000:]!r}"
        return found + len(text)

    def wait(self, seconds: float = 60) -> int:
        """Wait for the exit and return its code; read meanwhile, so that the process is not blocked."""
        deadline = time.monotonic() + seconds
        while (code := self.process.poll()) is None:
            assert time.monotonic() < deadline, f"it has not exited: {self.read()[-2000:]!r}"
            self.read()
        self.read()
        return code

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.slave)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        os.close(self.slave)
        os.close(self.master)
