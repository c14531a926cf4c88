"""What a worker process does, from its fork to its end."""

from __future__ import annotations

import mmap
import os
import signal
import threading
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from djqueue.conf import config

from .board import Board
from .kinship import title
from .link import Link
from .options import Options
from .process import Worker


def work(options: Options, memory: mmap.mmap, number: int, connection: Connection[Any, Any]) -> int:
    """Run jobs, shown on a board of the shared memory; gives the exit code."""
    title(f"worker {options.name or number + 1}")
    worker = Worker(options, Board(memory, number), replaceable=True)

    def drain(number: int, frame: FrameType | None) -> None:
        # It interrupts the claimer, perhaps with a lock in hand: another thread does what takes locks.
        reason = signal.Signals(number).name
        threading.Thread(target=worker.drain, args=[reason, config().shutdown_grace], daemon=True).start()

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # comes from the terminal to all of us: the supervisor decides
    signal.signal(signal.SIGTERM, drain)
    os.register_at_fork(after_in_child=lambda: leave_family(connection))
    link = Link(connection, worker)
    link.start()
    code = worker.run()
    link.report()  # what was done since the last one
    return code


def leave_family(connection: Connection[Any, Any]) -> None:
    """A process that a task forks is none of ours: it ends when it is told to, and does not speak in our name."""
    connection.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
