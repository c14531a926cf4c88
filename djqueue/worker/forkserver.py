"""The fork server: the process that imports the project once, and from which worker processes are forked.

The supervisor cannot fork them itself: it has threads, and a child would inherit their locks as locked forever. The
fork server has no thread and no connection.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from django.core.checks import run_checks
from django.core.management.base import SystemCheckError
from django.db import connections

from djqueue.core import registry
from djqueue.core.log import logger
from djqueue.schedules.definition import Definition
from djqueue.schedules.in_code import valid_declarations

from .os_process import at_exit, die_with_parent, title

# How long the last lines of output may take to be written when a process exits.
FLUSH_WITHIN = 2.0

Work = Callable[[int, "Connection[Any, Any]"], int]  # what a worker process does: its number, its pipe, its exit code


@dataclass(frozen=True, slots=True)
class Ready:
    """The project is imported. Describes its tasks and schedules to the supervisor, which does not import it."""

    tasks: dict[str, dict[str, Any]]
    schedules: dict[str, Definition | None]


@dataclass(frozen=True, slots=True)
class Forked:
    number: int
    pid: int


@dataclass(frozen=True, slots=True)
class NotForked:
    number: int
    error: str


@dataclass(frozen=True, slots=True)
class Exited:
    pid: int
    status: int  # as returned by waitpid


class ForkServer:
    """The supervisor's end. Must be created before the supervisor has a thread or a connection."""

    def __init__(self, work: Work) -> None:
        close_connections()
        self.orders, orders = socket.socketpair()
        self.events, events = Pipe(duplex=False)
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self.orders.close()
            self.events.close()
            _exit_after(lambda: _serve(parent, orders, events, work))
        orders.close()
        events.close()

    def fork(self, number: int) -> Connection[Any, Any]:
        """Request a worker process; return the pipe to it."""
        own, other = Pipe()
        socket.send_fds(self.orders, [number.to_bytes(4, "big")], [other.fileno()])
        other.close()
        return own

    def close(self) -> None:
        """Let the fork server exit."""
        self.orders.close()


def check_project() -> None:
    """Import the tasks and run the system checks of djqueue. Raise SystemCheckError if there are serious messages."""
    registry.discover()
    # Only those of djqueue: others may query a database, which may not be available yet.
    messages = run_checks(tags=["djqueue"])
    serious = [str(message) for message in messages if message.is_serious() and not message.is_silenced()]
    if serious:
        raise SystemCheckError("\n".join(serious))


def close_connections() -> None:
    """Close all connections: a child must not share them."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        if hasattr(connection, "close_pool"):
            connection.close_pool()


def _exit_after(act: Callable[[], int]) -> None:
    """Exit with the code that `act` returns; never return into the code of the process that forked this one."""
    code = 1
    try:
        code = act()
    except SystemExit as end:
        code = int(end.code or 0)
    except SystemCheckError as error:
        sys.stderr.write(f"{error}\n")
    except BaseException:
        traceback.print_exc()
    finally:
        # In a thread of its own: the output may not be read any more.
        flushing = threading.Thread(target=_flush, daemon=True)
        flushing.start()
        flushing.join(FLUSH_WITHIN)
        os._exit(code)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    for act in at_exit:
        with suppress(Exception):
            act()
    logging.shutdown()


def _serve(parent: int, orders: socket.socket, events: Connection[Any, Any], work: Work) -> int:
    die_with_parent(parent)
    title("fork server")
    # Signals to the whole process group are handled by the supervisor.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    check_project()
    if threading.active_count() > 1:
        logger.warning(
            "threads started at import do not exist in worker processes threads=%s", threading.enumerate()[1:]
        )
    child_exited, wakeup = os.pipe()
    for end in (child_exited, wakeup):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup)
    events.send(Ready(registry.describe(), valid_declarations()))
    while True:
        waiting: list[Any] = [orders, child_exited]
        readable, _, _ = select.select(waiting, [], [])
        if child_exited in readable:
            os.read(child_exited, 4096)
            _report_exited(events)
        if orders in readable:
            data, pipes, _, _ = socket.recv_fds(orders, 4, 1)
            if not data:
                return 0
            events.send(_handle(int.from_bytes(data, "big"), pipes, work, [orders, events, child_exited, wakeup]))


def _handle(number: int, pipes: list[int], work: Work, own_files: list[Any]) -> Forked | NotForked:
    """Fork a worker process; a lack of memory or processes must not end the fork server and its children."""
    try:
        if not pipes:
            raise OSError("the file descriptor of its pipe could not be received")
        return Forked(number, _fork(number, pipes[0], work, own_files))
    except OSError as error:
        return NotForked(number, str(error))
    finally:
        for pipe in pipes:
            os.close(pipe)


def _fork(number: int, pipe: int, work: Work, own_files: list[Any]) -> int:
    close_connections()
    forkserver = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        die_with_parent(forkserver)
        os.set_inheritable(pipe, False)
        for end in own_files:
            os.close(end) if isinstance(end, int) else end.close()
        _exit_after(lambda: work(number, Connection(pipe)))
    return pid


def _report_exited(events: Connection[Any, Any]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        events.send(Exited(pid, status))
