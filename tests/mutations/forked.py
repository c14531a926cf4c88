"""Run pytest in a fork of this process, which has imported Django already, and on test databases that are kept.

That takes a fraction of the time of a new interpreter with new databases. The fork imports djqueue and its tests.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import IO

import asgiref.sync  # noqa: F401
import croniter  # noqa: F401
import django.core.management
import django.db.migrations.executor
import django.forms
import django.template
import django.test.utils
import django.views.generic
import environ  # noqa: F401
import factory  # noqa: F401
import hypothesis.strategies  # noqa: F401
import psycopg  # noqa: F401
import pytest

POLL = 0.05


def pytest_in(
    folder: Path, arguments: Sequence[str], environment: dict[str, str], seconds: float
) -> tuple[str, int | None]:
    """Return the output and the exit code of pytest; None for a run that took too long and was killed."""
    with tempfile.TemporaryFile("w+") as output:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _become_pytest(folder, arguments, environment, output)
        try:
            code = _exit_code(child, time.monotonic() + seconds)
        finally:
            _kill_group(child)
        output.seek(0)
        return output.read(), code


def _exit_code(child: int, deadline: float) -> int | None:
    """Wait for a child process; None if it has not exited in time."""
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(POLL)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _kill_group(child: int) -> None:
    """Kill what the tests have started and left behind."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass  # nothing


def _become_pytest(folder: Path, arguments: Sequence[str], environment: dict[str, str], output: IO[str]) -> None:
    code = 70
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        atexit._clear()  # the server and the copy belong to the parent
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["pytest", *arguments]
        sys.path[0] = str(folder)
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "djqueue")]:
            del sys.modules[name]
        utils = django.test.utils
        utils.setup_databases = partial(utils.setup_databases, keepdb=True)
        utils.teardown_databases = partial(utils.teardown_databases, keepdb=True)
        # Rewriting the assertions of all modules would take longer than the tests.
        code = int(pytest.main(["--assert=plain", *arguments]))
        sys.stdout.flush()
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
