"""`--reload`: restart the worker when code changes, with Django's autoreload.

A terminal sends Ctrl-C to all processes of the command, so one of them must handle it for all: the process that watches
the files passes it on to the worker, which ignores the terminal's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from types import FrameType
from typing import NoReturn

from django.utils import autoreload

from djqueue.core import registry

from .os_process import die_with_parent, start_over

WATCHER = "DJQUEUE_RELOADER"  # the process that watches the files, in the environment of its worker


def is_watched() -> bool:
    """Return whether this process is the worker of a process that watches the files."""
    return WATCHER in os.environ


def obey_watcher() -> None:
    """Drain when the process that watches the files exits for any reason, and leave Ctrl-C to it."""
    if is_watched():
        die_with_parent(int(os.environ[WATCHER]), signal.SIGTERM)
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that stop this worker."""
    return (signal.SIGTERM,) if is_watched() else (signal.SIGTERM, signal.SIGINT)


class Watcher:
    """Watches the project's files, with the worker as a child process, which it starts again after a change."""

    def __init__(self) -> None:
        self.worker: subprocess.Popen[bytes] | None = None
        self.lock = threading.Lock()  # of the next two lines
        self.stopping = False  # no worker may be started any more
        self.signals = 0

    def run(self) -> NoReturn:
        """Watch until a signal arrives; then exit with the exit code of the worker."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._receive)
        try:
            autoreload.start_django(autoreload.get_reloader(), self._start_worker)
        except SystemExit:
            pass  # code has changed, or a signal has arrived
        finally:
            code = self._drain()
        if not self.signals:
            start_over()  # so that the modules of the new code are watched
        sys.exit(code)

    def _start_worker(self) -> None:
        registry.discover()  # so that the modules of tasks are watched
        with self.lock:
            if self.stopping:
                return
            environment = {WATCHER: str(os.getpid()), autoreload.DJANGO_AUTORELOAD_ENV: "true"}
            self.worker = subprocess.Popen([sys.executable, *sys.orig_argv[1:]], env=os.environ | environment)
        # Also if it exits by itself: the next change of code starts another. This thread must not end before the
        # worker, because the kernel takes it for the worker's parent.
        threading.Event().wait()

    def _drain(self) -> int:
        """Let running jobs finish within SHUTDOWN_GRACE; return the exit code of the worker."""
        with self.lock:
            self.stopping = True
        if self.worker is None:
            return 0
        self.worker.terminate()
        return self.worker.wait()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.signals += 1
        if self.signals > 1 and self.worker:
            self.worker.terminate()  # once more, so that it stops at once
        elif not self.stopping:
            sys.exit()  # from watching, to drain
