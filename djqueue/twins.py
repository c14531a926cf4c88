"""The async twin of a blocking call: the same work on Django's thread for synchronous code, off the event loop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async

P = ParamSpec("P")
R = TypeVar("R")


def twin(func: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Make `aname` from `name`; it works on the same connection, and so in the same transaction, as the code around."""

    @functools.wraps(func)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return await sync_to_async(func)(*args, **kwargs)

    call.__name__ = f"a{func.__name__}"
    call.__qualname__ = f"{func.__qualname__.rpartition(func.__name__)[0]}a{func.__name__}"
    return call
