"""The test kit: run jobs inside a test, let time pass, check what was enqueued. See docs/guides/testing.md."""

from __future__ import annotations

from .assertions import aassert_enqueued, aassert_not_enqueued, assert_enqueued, assert_not_enqueued
from .capture import capture_jobs
from .clock import aadvance, advance
from .eagerly import eager
from .pending import arun_pending, run_pending
from .threads import worker

__all__ = [
    "aadvance",
    "aassert_enqueued",
    "aassert_not_enqueued",
    "advance",
    "arun_pending",
    "assert_enqueued",
    "assert_not_enqueued",
    "capture_jobs",
    "eager",
    "run_pending",
    "worker",
]
