"""Numbers and lists in the texts of findings."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return `1 job` or `1,200 jobs`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")
