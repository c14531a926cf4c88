"""Threads without which a process cannot work."""

from __future__ import annotations

import threading
from collections.abc import Callable

from django.db import connections

from djqueue.core.log import logger

Fatal = Callable[[str], None]  # called with the name of a thread that ended unexpectedly


class VitalThread(threading.Thread):
    """A thread whose work returns only when it is stopped; if it raises, `fatal` is called.

    A process that has lost such a thread looks alive but does nothing, so it must exit.
    """

    def __init__(self, work: Callable[[], object], name: str, fatal: Fatal) -> None:
        super().__init__(name=name, daemon=True)
        self.work = work
        self.fatal = fatal

    def run(self) -> None:
        try:
            self.work()
        except BaseException:
            logger.critical("thread ended unexpectedly thread=%s", self.name, exc_info=True)
            self.fatal(self.name)
        finally:
            connections.close_all()
