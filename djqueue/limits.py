"""Limit keys at run time: other numbers for one key, holds, and what holds its permits."""

from __future__ import annotations

from .core.async_twins import twin
from .core.durations import Duration
from .core.limits import LimitState, Numbers, read_numbers
from .lifecycle import limits


def set(  # noqa: A001 - the contract's name
    key: str, *, concurrency: int | None = None, rate: str | None = None, burst: int | None = None
) -> None:
    """Use these numbers for the key, whatever its tasks say, until `clear`. A number that is not given is the task's.

    A lower number takes effect as jobs end: none is interrupted.
    """
    limits.override(key, read_numbers(concurrency, rate, burst))


def clear(key: str) -> None:
    """Use the numbers of the tasks again."""
    limits.override(key, Numbers())


def get(key: str) -> LimitState:
    """Return the numbers of a key, how many jobs hold a permit and how many wait for one, and until when it is held."""
    return limits.state(key)


def hold(key: str, delay: Duration) -> None:
    """Admit no job of the key for so long. Jobs that are claimed continue; the others wait again."""
    limits.hold(key, delay)


def release(key: str) -> None:
    """End the hold of a key."""
    limits.release(key)


aset = twin(set)
aclear = twin(clear)
aget = twin(get)
ahold = twin(hold)
arelease = twin(release)
