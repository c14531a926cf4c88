"""The logger of djqueue: a handler that raises is reported on stderr, and does not stop the code that logs."""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

# The number of records that may wait to be written; further records are dropped.
MOST_WAITING = 10_000


class LineHandler(logging.StreamHandler[Any]):
    """Writes to a stream: the handler of a worker whose project has configured none."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def write_all(self, level: int, messages: Iterable[str]) -> None:
        """Write the same lines as for a record per message, which takes ten times as long."""
        record = logging.LogRecord("", level, "", 0, "", None, None)
        with self.lock or nullcontext():
            start = self.format(record)
            self.stream.write("".join(f"{start}{message}{self.terminator}" for message in messages))
            self.flush()


class SafeLogger(logging.LoggerAdapter[logging.Logger]):
    """Pass records to `logging.getLogger("djqueue")`, and survive exceptions of its handlers and filters.

    A handler may also block forever, for example if standard output is a pipe that is not read. Where that must
    not stop a thread, `write_in_background` calls the handlers in a thread of their own.
    """

    background: queue.SimpleQueue[Callable[[], None]] | None = None

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if self.logger.isEnabledFor(level):
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # the caller's line, not this one
            try:
                self.logger._log(level, msg, args, **kwargs)  # not super().log(): a line is logged for every job
            except Exception:
                _report_broken_handler()

    def info_all(self, msg: str, lines: Sequence[tuple[object, ...]]) -> None:
        """Log a line for each tuple of arguments: at once, if only the worker's own handler would get the records."""
        if not lines or not self.logger.isEnabledFor(logging.INFO):
            return
        if handler := self._own_handler():
            try:
                handler.write_all(logging.INFO, [msg % line for line in lines])
                return
            except UnicodeError:
                pass  # the stream cannot write one of the names: by itself, each of the other lines can be written
            except Exception:
                _report_broken_handler()
                return
        for line in lines:
            self.info(msg, *line, stacklevel=2)

    def _own_handler(self) -> LineHandler | None:
        """Return the worker's own handler if there is no other handler or filter for the records of this logger."""
        found: list[logging.Handler] = []
        place: logging.Logger | None = self.logger
        while place is not None:
            found += place.handlers
            place = place.parent if place.propagate else None
        if len(found) != 1 or self.logger.filters or not isinstance(handler := found[0], LineHandler):
            return None
        return None if handler.filters or handler.level > logging.INFO else handler

    def failure(self, msg: str, *args: object, error: BaseException | None, text: str) -> None:
        """Log an ERROR with the exception, for handlers that read it, and with the text that formatters show for it.

        The text may be given without the exception.
        """
        if self.logger.isEnabledFor(logging.ERROR):
            try:
                file, line, function, _ = self.logger.findCaller(stacklevel=2)
                raised = None if error is None else (type(error), error, error.__traceback__)
                record = self.logger.makeRecord(
                    self.logger.name, logging.ERROR, file, line, msg, args, raised, function
                )
                record.exc_text = text or None
                self.logger.handle(record)
            except Exception:
                _report_broken_handler()

    def write_in_background(self) -> None:
        """From now on, call the handlers in a thread of their own."""
        if self.background is None:
            self.background = queue.SimpleQueue()
            threading.Thread(target=self._write, name="djqueue-log", daemon=True).start()
            self.logger.addFilter(self._put_aside)

    def flush(self, timeout: float) -> bool:
        """Wait until all records are written; return False if the timeout is reached first."""
        deadline = time.monotonic() + timeout
        if self.background is not None:
            written = threading.Event()
            self.background.put(written.set)
            return written.wait(max(0.0, deadline - time.monotonic()))
        return True

    def _put_aside(self, record: logging.LogRecord) -> bool:
        """A filter that passes every record to the thread, which calls the handlers."""
        if self.background is not None and self.background.qsize() < MOST_WAITING:
            self.background.put(lambda: self.logger.callHandlers(record))
        return False

    def _write(self) -> None:
        assert self.background is not None
        while True:
            write = self.background.get()
            try:
                write()
            except Exception:
                _report_broken_handler()


def _report_broken_handler() -> None:
    if logging.raiseExceptions and sys.stderr is not None:
        try:
            traceback.print_exc(file=sys.stderr)
        except (OSError, ValueError):
            pass  # stderr is closed: there is nowhere to report to


logger = SafeLogger(logging.getLogger("djqueue"))
