"""`--reload`: a worker that starts over when code changes, by Django's own autoreload."""

from __future__ import annotations

import atexit
import subprocess
import sys
import threading

from django.utils import autoreload

from djqueue import registry

GRACE = 5.0


def run() -> None:
    """Watch the project's files, with the worker as a child; never returns."""
    autoreload.run_with_reloader(_watch)
    sys.exit(0)


def _watch() -> None:
    registry.discover()  # so that the modules of tasks are watched
    arguments = [argument for argument in sys.orig_argv[1:] if argument != "--reload"]
    worker = subprocess.Popen([sys.executable, *arguments])
    atexit.register(_end, worker)
    worker.wait()
    threading.Event().wait()  # it ended by itself: the next change of code starts another


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.terminate()
    try:
        worker.wait(GRACE)
    except subprocess.TimeoutExpired:
        worker.terminate()
        worker.wait()
