"""What the names of queues, tasks and keys may contain."""

from __future__ import annotations

import re

from djqueue.exceptions import InvalidOption

from .shown import shown

MAX_NAME = 255
MAX_QUEUE = 128
# Control characters break logs and terminals, "=" and "," have a meaning on the command line, surrogates have no UTF-8
# form.
BAD_QUEUE = re.compile("[\x00-\x20\x7f=,\ud800-\udfff]")
BAD_NAME = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def check_name(value: str, what: str, longest: int = MAX_NAME, bad: re.Pattern[str] = BAD_NAME) -> None:
    """Raise InvalidOption if the value cannot be the name of such a thing."""
    if not isinstance(value, str) or not value:
        raise InvalidOption(f"{what} must be a non-empty string, got {shown(value)}")
    if len(value) > longest:
        raise InvalidOption(f"{what} must be at most {longest} characters long, got {len(value)} ({value[:40]!r}…)")
    if found := bad.search(value):
        raise InvalidOption(f"{what} {value[:80]!r} contains the character {found[0]!r}, which is not allowed")
