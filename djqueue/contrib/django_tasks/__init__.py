"""A backend for `django.tasks`: its jobs are ordinary jobs of djqueue."""

from __future__ import annotations

from .backend import DjqueueBackend
from .task import DjqueueTask, task

__all__ = ["DjqueueBackend", "DjqueueTask", "task"]
