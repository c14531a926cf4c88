"""The process that worker processes are forked from: it has imported the project, and has no thread and no connection.

A supervisor cannot fork them itself: it has threads, whose locks a child would inherit locked for ever.
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
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from django.core.checks import run_checks
from django.db import connections

from djqueue import registry
from djqueue.declarations import valid_declarations
from djqueue.definitions import Definition

from .kinship import die_with_parent, title

logger = logging.getLogger("djqueue")

Work = Callable[[int, "Connection[Any, Any]"], int]  # what a worker does: board's number and link, exit code


@dataclass(frozen=True, slots=True)
class Ready:
    """The project is imported; the supervisor, which has not, learns what it must know of it."""

    tasks: dict[str, dict[str, Any]]
    schedules: dict[str, Definition | None]


@dataclass(frozen=True, slots=True)
class Forked:
    number: int
    pid: int


@dataclass(frozen=True, slots=True)
class Exited:
    pid: int
    status: int  # as waitpid gives it


class Template:
    """The supervisor's end. Made before the supervisor has a thread or a connection."""

    def __init__(self, work: Work) -> None:
        close_connections()
        self.orders, orders = socket.socketpair()
        self.news, news = Pipe(duplex=False)
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self.orders.close()
            self.news.close()
            _end_after(lambda: _serve(parent, orders, news, work))
        orders.close()
        news.close()

    def fork(self, number: int) -> Connection[Any, Any]:
        """Order a worker process; gives the link to it."""
        ours, theirs = Pipe()
        socket.send_fds(self.orders, [number.to_bytes(4, "big")], [theirs.fileno()])
        theirs.close()
        return ours

    def close(self) -> None:
        """No more processes; the template ends."""
        self.orders.close()


def check_project() -> None:
    """Import the tasks, and see whether anything is wrong with them; says so and ends the process if it is."""
    registry.discover()
    # Only our own: others may ask a database, which need not be there yet.
    messages = run_checks(tags=["djqueue"])
    serious = [message for message in messages if message.is_serious() and not message.is_silenced()]
    if serious:
        for message in serious:
            sys.stderr.write(f"{message}\n")
        sys.stderr.flush()
        raise SystemExit(1)


def close_connections() -> None:
    """Nothing that a child might share."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        if hasattr(connection, "close_pool"):
            connection.close_pool()


def _end_after(act: Callable[[], int]) -> None:
    """End this process with what the act gives; never returns into the code of the process that forked it."""
    code = 1
    try:
        code = act()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            logging.shutdown()
        finally:
            os._exit(code)


def _serve(parent: int, orders: socket.socket, news: Connection[Any, Any], work: Work) -> int:
    die_with_parent(parent)
    title("template")
    # Whoever signals the whole group means the supervisor, which tells us what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    check_project()
    if threading.active_count() > 1:
        logger.warning("threads started at import do not live in worker processes: %s", threading.enumerate()[1:])
    ended, wakeup = os.pipe()
    for end in (ended, wakeup):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup)
    news.send(Ready(registry.describe(), valid_declarations()))
    while True:
        waiting: list[Any] = [orders, ended]
        readable, _, _ = select.select(waiting, [], [])
        if ended in readable:
            os.read(ended, 4096)
            _report_ended(news)
        if orders in readable:
            number, link = _receive(orders)
            if link is None:
                return 0
            news.send(Forked(number, _fork(number, link, work, [orders, news, ended, wakeup])))
            os.close(link)


def _receive(orders: socket.socket) -> tuple[int, int | None]:
    data, links, _, _ = socket.recv_fds(orders, 4, 1)
    return int.from_bytes(data, "big"), links[0] if links else None


def _fork(number: int, link: int, work: Work, ours: list[Any]) -> int:
    close_connections()
    template = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        die_with_parent(template)
        os.set_inheritable(link, False)
        for end in ours:
            os.close(end) if isinstance(end, int) else end.close()
        _end_after(lambda: work(number, Connection(link)))
    return pid


def _report_ended(news: Connection[Any, Any]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        news.send(Exited(pid, status))
