"""The workloads, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.compare.run import Run

from .depth import depth
from .drain import drain
from .enqueue import bulk, enqueue
from .growth import coroutines, payload, processes, queues
from .idle import crowd, idle, memory
from .mixed import mixed
from .pickup import pickup
from .sqlite import sqlite

WORKLOADS: dict[str, Callable[[Run], None]] = {
    "enqueue": enqueue,
    "bulk": bulk,
    "drain": drain,
    "pickup": pickup,
    "async": coroutines,
    "queues": queues,
    "processes": processes,
    "payload": payload,
    "mixed": mixed,
    "idle": idle,
    "crowd": crowd,
    "memory": memory,
    "sqlite": sqlite,
    "depth": depth,
}
QUICK = ["enqueue", "bulk", "drain", "pickup"]
