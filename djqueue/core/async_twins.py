"""Async variants of blocking functions, run in Django's thread for synchronous code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async

P = ParamSpec("P")
R = TypeVar("R")


def twin(func: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return the async variant of a function, which uses the connection and the transaction of the synchronous code."""

    @functools.wraps(func)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return await sync_to_async(func)(*args, **kwargs)

    call.__name__ = f"a{func.__name__}"
    call.__qualname__ = f"{func.__qualname__.rpartition(func.__name__)[0]}a{func.__name__}"
    return call
