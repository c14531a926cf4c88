"""Registers the tasks of `tests.hooks` in a worker."""

from tests.hooks import *  # noqa: F403
