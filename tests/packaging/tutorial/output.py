"""Compare the output that a page shows with the real one."""

from __future__ import annotations

import re
from collections.abc import Sequence


def missing_line(shown: Sequence[str], real: str) -> str | None:
    """Return the first line that is shown but does not come, or None. The order counts; more lines may come."""
    return compare(shown, plain(real).splitlines())[0]


def compare(shown: Sequence[str], real: Sequence[str]) -> tuple[str | None, int]:
    """Return the first line that is shown but does not come, or None, and the number of lines up to the last match."""
    rest = iter(real)
    for line in shown:
        pattern = re.compile(".*".join(re.escape(part) for part in line.strip().split("...")))
        if pattern.pattern in ("", ".*"):
            continue
        if not any(pattern.fullmatch(candidate.strip()) for candidate in rest):
            return line, len(real)
    return None, len(real) - len(list(rest))


def plain(text: str) -> str:
    """Return the text without colours and carriage returns, with ^C on a line of its own."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "").replace("^C", "^C\n")
