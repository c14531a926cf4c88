"""This operating-system process: its title and memory, its exit with its parent, and forks made by tasks."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn
from weakref import WeakSet

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

PR_SET_PDEATHSIG = 1

# Called when a worker process exits; it does not run the functions of the module atexit, which belong to its parent.
at_exit: list[Callable[[], object]] = []


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Have the kernel signal this process when its parent exits; only on Linux, elsewhere a closed pipe shows it."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it has exited already
            os._exit(1)


def is_current_directory(path: str) -> bool:
    """Return whether the process is in this directory.

    os.getcwd() releases the GIL. It is asked after every job, and another thread would take over each time: the change
    of threads takes longer than a short job.
    """
    if _getcwd is None:
        with suppress(OSError):  # the directory has been removed
            return os.getcwd() == path
        return False
    return _getcwd(_buffer, 4096) is not None and _buffer.value == _encoded(path)


_encoded = cache(os.fsencode)
_buffer = ctypes.create_string_buffer(4096)
_getcwd: Any = getattr(ctypes.PyDLL(None), "getcwd", None) if os.name == "posix" else None
if _getcwd is not None:
    _getcwd.argtypes, _getcwd.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_void_p


_forks = [0]  # how many forks led to this process
_connected: WeakSet[BaseDatabaseWrapper] = WeakSet()  # in any thread
_of_parent: list[Any] = []  # of all processes from which this one was forked
_forking = threading.RLock()


def _note_connection(connection: BaseDatabaseWrapper, **kwargs: object) -> None:
    with _forking:
        _connected.add(connection)


connection_created.connect(_note_connection, weak=False)


def _before_fork() -> None:
    _forking.acquire()
    _of_parent.append(list(_connected))


def _after_fork_in_parent() -> None:
    del _of_parent[-1]
    _forking.release()


def _after_fork_in_child() -> None:
    _forking.release()
    _forks[0] += 1
    forget_connections()


def forget_connections() -> None:
    """Let this process, which was just forked, open database connections of its own.

    The connections and pools of the parent are kept and never used: on a shared socket each process would read the
    answers to the other, and closing one would end the session of the parent. Some drivers close a connection that is
    garbage, as those of the other threads would be here: these threads do not exist in this process.
    """
    for connection in connections.all(initialized_only=True):
        if connection.vendor == "sqlite" and connection.is_in_memory_db():  # type: ignore[attr-defined]
            continue  # no other process uses it, and it would be lost
        _of_parent.append(connection)  # one that was opened before this module was imported
        del connections[connection.alias]
    if (postgresql := sys.modules.get("django.db.backends.postgresql.base")) is not None:
        pools: dict[str, Any] = getattr(postgresql.DatabaseWrapper, "_connection_pools", {})
        _of_parent.extend(pools.values())
        pools.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


class end_if_forked:  # noqa: N801 - used as `with end_if_forked():`
    """Exit at the end of the block in a process that was forked inside it, instead of returning to the worker's code.

    Such a process has one of the worker's threads, a copy of the jobs that wait for it, and its parent's connections.
    Every job runs in such a block, so this is a class: a generator-based context manager costs several times as much.
    Forks are counted by a hook of Python: to compare the ids of the processes takes two system calls for each job.
    """

    __slots__ = ("forks",)

    def __enter__(self) -> None:
        self.forks = _forks[0]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if _forks[0] == self.forks:
            return
        code = 0
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        elif error is not None:
            traceback.print_exception(error)
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)


def title(text: str) -> None:
    """Set the title shown by ps and top, if setproctitle is installed."""
    try:
        from setproctitle import setproctitle
    except ImportError:
        return
    setproctitle(f"djqueue: {text}")


def start_over() -> NoReturn:
    """Replace this process by a new one with the same id, which has no threads and can make a fork server."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def resident_memory() -> int:
    """Return the resident memory of this process in bytes."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:  # not on Linux: return the maximum so far
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
