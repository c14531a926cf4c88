"""Maintenance: each function returns a count, and any number of processes may call it at the same time."""

from __future__ import annotations

from .core.async_twins import twin
from .lifecycle.admit import admit
from .lifecycle.limits import sweep_limits
from .lifecycle.promote import promote
from .lifecycle.reap import reap
from .lifecycle.sweep import sweep_dead, sweep_done, sweep_kv
from .lifecycle.throughput import roll_up
from .schedules.fire import fire_schedules

aadmit = twin(admit)
areap = twin(reap)
apromote = twin(promote)
asweep_done = twin(sweep_done)
asweep_dead = twin(sweep_dead)
asweep_kv = twin(sweep_kv)
asweep_limits = twin(sweep_limits)
aroll_up = twin(roll_up)
afire_schedules = twin(fire_schedules)

__all__ = [
    "admit",
    "fire_schedules",
    "promote",
    "reap",
    "roll_up",
    "sweep_dead",
    "sweep_done",
    "sweep_kv",
    "sweep_limits",
]
__all__ += [f"a{name}" for name in __all__]
