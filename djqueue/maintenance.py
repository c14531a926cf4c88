"""The duties that keep a queue in order; each returns a count, and any number of processes may do them at once."""

from __future__ import annotations

from .counters import roll_up
from .lifecycle.promote import promote
from .lifecycle.reap import reap
from .lifecycle.sweep import sweep_dead, sweep_done

__all__ = ["promote", "reap", "roll_up", "sweep_dead", "sweep_done"]
