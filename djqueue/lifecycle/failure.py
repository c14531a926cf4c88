"""The stored form of an attempt's error: safe to store and cut to size, whatever the exception does."""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from djqueue.core.masking import hide
from djqueue.core.payload import safe_text

# Python 3.11 parses source lines for a traceback, and two threads that do so at once can raise a SystemError.
_formatting = threading.RLock()

MAX_NAME = 500
MAX_MESSAGE = 2_000
MAX_TRACEBACK = 10_000
MAX_REPR = 1_000


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of one failed attempt."""

    message: str
    exception: str = ""  # dotted path of the class
    traceback: str = ""

    def entry(self, *, at: datetime, attempt: int, worker: str, duration: float) -> str:
        """Return the line that is added to the job's `errors`."""
        return (
            json.dumps(
                {
                    "at": at.isoformat(),
                    "attempt": attempt,
                    "worker": worker,
                    "duration": round(duration, 6),
                    "exception": self.exception,
                    "message": self.message,
                    "traceback": self.traceback,
                },
                ensure_ascii=False,
                separators=(",", ":"),
            )
            + "\n"
        )


def describe_value(value: object, secrets: Sequence[str] = ()) -> str:
    """Return the repr() of a value without trusting it: like a message, it may raise, be endless or contain secrets."""
    try:
        text = repr(value)
    except BaseException as broken:
        text = f"<{type(value).__name__} whose __repr__ raised {type(broken).__name__}>"
    return safe_text(hide(text, secrets), MAX_REPR)


def class_name(value: object) -> str:
    """Return the dotted path of a value's class; of a built-in class, its name."""
    kind = type(value)
    return safe_text(f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."), MAX_NAME)


def describe(error: BaseException | str, secrets: Sequence[str] = ()) -> Failure:
    """Read an error without trusting it: its `__str__` may raise, be endless or contain secrets.

    Secrets are masked before anything is cut, or a half of one could remain.
    """
    kind: Any = type(error)
    try:
        message = str(error)
    except BaseException as broken:
        message = f"<{kind.__name__} whose __str__ raised {type(broken).__name__}>"
    if not isinstance(error, BaseException):
        return Failure(safe_text(hide(message, secrets), MAX_MESSAGE))
    with _formatting:
        try:
            lines = traceback.format_exception(kind, error, error.__traceback__)
        except BaseException:
            # format_tb() calls no method of the exception.
            lines = [*traceback.format_tb(error.__traceback__), f"{kind.__name__}: {message}\n"]
    return Failure(
        safe_text(hide(message, secrets) or kind.__name__, MAX_MESSAGE),
        safe_text(f"{kind.__module__}.{kind.__qualname__}", MAX_NAME),
        safe_text(hide("".join(lines), secrets), MAX_TRACEBACK),
    )
