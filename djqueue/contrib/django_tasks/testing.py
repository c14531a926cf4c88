"""Django's backends for tests, with djqueue's Task: Django's own refuse its options, such as `max_attempts`."""

from __future__ import annotations

from . import compat
from .task import DjqueueTask


class ImmediateBackend(compat.ImmediateBackend):
    """Runs a task in the call of `enqueue`, once."""

    task_class = DjqueueTask


class DummyBackend(compat.DummyBackend):
    """Runs nothing, and keeps results in its `results`."""

    task_class = DjqueueTask
