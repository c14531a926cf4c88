"""Processes that do not outlive the one that made them, and that can be told apart from outside."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import NoReturn

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Be signalled by the kernel when the parent ends; where that cannot be had, the end of a pipe tells."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it ended before we asked
            os._exit(1)


def title(text: str) -> None:
    """Show up under this name in ps and top, where setproctitle is installed."""
    try:
        from setproctitle import setproctitle
    except ImportError:
        return
    setproctitle(f"djqueue: {text}")


def start_over() -> NoReturn:
    """Become a new process under the same id: one that has no thread can make a template."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
