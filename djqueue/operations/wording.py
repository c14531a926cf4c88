"""Numbers and durations in the texts of findings."""

from __future__ import annotations

from collections.abc import Sequence

UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def duration(seconds: float) -> str:
    """Return a duration in at most two units: `4.2 s`, `45 s`, `3 min 20 s`, `2 h 5 min`, `4 d`."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    numbers, rest = [], round(seconds)
    for _, size in UNITS:
        number, rest = divmod(rest, size)
        numbers.append(number)
    first = next(place for place, number in enumerate(numbers) if number)
    parts = zip(numbers[first : first + 2], UNITS[first : first + 2], strict=True)
    return " ".join(f"{number} {unit}" for number, (unit, _) in parts if number)


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return `1 job` or `1,200 jobs`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")
