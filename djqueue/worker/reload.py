"""`--reload`: restart the worker when code changes, with Django's autoreload."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading

from django.utils import autoreload

from djqueue.core import registry

from .os_process import die_with_parent

GRACE = 5.0
RELOADER = "DJQUEUE_RELOADER"


def run() -> None:
    """Watch the project's files, with the worker as a child; never return."""
    autoreload.run_with_reloader(_watch)
    sys.exit(0)


def end_with_reloader() -> None:
    """Drain when the process that watches the files exits for any reason."""
    if RELOADER in os.environ:
        die_with_parent(int(os.environ[RELOADER]), signal.SIGTERM)


def _watch() -> None:
    registry.discover()  # so that the modules of tasks are watched
    arguments = [argument for argument in sys.orig_argv[1:] if argument != "--reload"]
    worker = subprocess.Popen([sys.executable, *arguments], env=os.environ | {RELOADER: str(os.getpid())})
    atexit.register(_end, worker)
    worker.wait()
    threading.Event().wait()  # it exited by itself: the next change of code starts another


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.terminate()
    try:
        worker.wait(GRACE)
    except subprocess.TimeoutExpired:
        worker.terminate()
        worker.wait()
