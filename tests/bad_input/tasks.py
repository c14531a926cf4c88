"""A task that returns what it is given, and one that ends as a test says."""

from __future__ import annotations

from typing import Any

import djqueue

# What JSON cannot carry: a test puts it here, and the task runs in the same process.
ENDS: list[Any] = []


@djqueue.task(retry=djqueue.NoRetry())
def give_back(*args: Any, **kwargs: Any) -> Any:
    return [list(args), kwargs]


@djqueue.task(retry=djqueue.NoRetry())
def end(number: int) -> Any:
    found = ENDS[number]
    if isinstance(found, BaseException):
        raise found
    return found
