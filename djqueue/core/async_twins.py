"""Async variants of blocking functions, run in Django's thread for synchronous code."""

from __future__ import annotations

import asyncio
import functools
import os
import re
import sys
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation

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


def refuse_event_loop() -> None:
    """Raise SynchronousOnlyOperation, as Django does, in an async context; name the async variant."""
    if asyncio._get_running_loop() is not None and not os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE"):
        raise SynchronousOnlyOperation(_explain(_called_function()))


def _called_function() -> FrameType:
    """Return the frame of the function of this package, or of django.tasks, that other code has called."""
    found = frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGES):
        found, frame = frame, frame.f_back
    return found


def _explain(frame: FrameType) -> str:
    owner, _, name = frame.f_code.co_qualname.rpartition(".")
    twin = _TWINS.get(name, f"a{name}")
    if owner:  # Task.enqueue is spelled task.aenqueue, and JobHandle.cancel handle.acancel
        places = {re.sub(r".*(?=[A-Z])", "", owner).lower(): frame.f_globals.get(owner)}
    else:
        places = {module: sys.modules.get(module) for module in (*_PUBLIC, frame.f_globals["__name__"])}
    found = next((place for place, namespace in places.items() if hasattr(namespace, twin)), None)
    remedy = f"await {found}.{twin}(...)" if found else "sync_to_async()"
    return f"{frame.f_code.co_qualname}() uses the database and cannot be called in an async context. Use {remedy}."


# Code of django.tasks is called by the user, and calls the backend: the user writes task.enqueue().
_PACKAGES = (__name__.partition(".")[0] + ".", "django.tasks.", "django_tasks.")
_PUBLIC = ("djqueue", "djqueue.maintenance", "djqueue.testing")  # where functions of other modules are imported
_TWINS = {"wait": "await_", "args": "aload", "kwargs": "aload"}
