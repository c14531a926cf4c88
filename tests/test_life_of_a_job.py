"""The modules through which a job passes, traced in a real run and compared with docs/explanation/life_of_a_job.md.

A module is part of the walk if one of its functions is called with the job: its arguments, its id, or a record of it.
"""

from __future__ import annotations

import re
import sys
import threading
from collections import deque
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any
from uuid import UUID

import pytest

import djqueue
from djqueue.models import DoneJob
from tests.app.tasks import echo
from tests.factories import ago
from tests.tools import rows
from tests.worker.process.test_worker import burst

PACKAGE = f"{Path(djqueue.__file__).parent}/"
DOCS = Path(__file__).parents[1] / "docs" / "explanation" / "life_of_a_job.md"
MARKER = "a value that no other job has"
RECORDS = ("id", "job", "args", "params")
# Their statements are constants, so they are not called.
STATEMENTS = {"sql/postgresql/enqueue", "sql/postgresql/claim", "sql/postgresql/settle"}
MOST_MODULES, MOST_RETURNS = 25, 5


class Walk:
    """A profile function that notes calls with the job."""

    def __init__(self) -> None:
        self.job_id: UUID | None = None
        self.modules: dict[str, None] = {}  # in the order of the first call
        self.returns: set[tuple[str, str]] = set()  # calls into the module that called the caller

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or not (module := module_of(frame)):
            return
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 0x04)]
        if not any(self.is_job(frame.f_locals.get(name)) for name in names):
            return
        self.modules[module] = None
        callers = callers_of(frame)
        if len(callers) > 2 and callers[0] == callers[2] and module_of(frame.f_back) == callers[1]:
            self.returns.add((f"{callers[1]} -> {callers[0]}", code.co_qualname))

    def is_job(self, value: Any, depth: int = 0) -> bool:
        if isinstance(value, str):
            return MARKER in value
        if isinstance(value, UUID):
            return value == self.job_id
        if depth > 3:
            return False
        if isinstance(value, list | tuple | set | deque):
            return any(self.is_job(item, depth + 1) for item in islice(value, 20))
        if isinstance(value, dict):
            return any(self.is_job(item, depth + 1) for item in islice(value.values(), 20))
        if isinstance(value, partial):
            return self.is_job(value.args, depth + 1)
        if not type(value).__module__.startswith("djqueue.") or hasattr(value, "start"):
            return False
        return any(self.is_job(vars_of(value).get(name), depth + 1) for name in RECORDS)


def vars_of(value: Any) -> dict[str, Any]:
    names = getattr(type(value), "__slots__", ()) or getattr(value, "__dict__", {})
    return {name: getattr(value, name, None) for name in RECORDS if name in names}


def module_of(frame: FrameType | None) -> str | None:
    """The module of a frame of djqueue; code without a name of its own belongs to its caller."""
    if frame is None or not frame.f_code.co_filename.startswith(PACKAGE) or frame.f_code.co_name.startswith("<"):
        return None
    return frame.f_code.co_filename.removeprefix(PACKAGE).removesuffix(".py")


def callers_of(frame: FrameType | None) -> list[str]:
    """The modules on the stack, the last one first, each run of one module once."""
    found: list[str] = []
    while frame is not None:
        if (module := module_of(frame)) and (not found or found[-1] != module):
            found.append(module)
        frame = frame.f_back
    return found


def documented() -> list[str]:
    text = DOCS.read_text().partition("<!-- walk: begin -->")[2].partition("<!-- walk: end -->")[0]
    return re.findall(r"\| `djqueue/(\S+)\.py` \|", text)


@pytest.mark.databases("postgresql")
def test_a_job_passes_through_the_documented_modules(database):
    walk = Walk()
    sys.setprofile(walk)
    threading.setprofile(walk)
    try:
        handle = echo.enqueue(MARKER)
        walk.job_id = handle.id
        assert burst(threads=1) == 0
    finally:
        threading.setprofile(None)
        sys.setprofile(None)
    assert handle.status() == "done"
    rows(DoneJob).update(completed_at=ago(10**8))
    assert djqueue.maintenance.sweep_done() == 1
    assert set(walk.modules) | STATEMENTS | {"lifecycle/sweep"} == set(documented()), list(walk.modules)
    assert len(documented()) <= MOST_MODULES
    assert len(walk.returns) <= MOST_RETURNS, walk.returns
