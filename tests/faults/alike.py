"""Gives a worker the host name and the process id that every other worker with this module has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from djqueue.core import identity

module: Any = identity
module.os = SimpleNamespace(getpid=lambda: 7)
module.socket = SimpleNamespace(gethostname=lambda: "pod")
