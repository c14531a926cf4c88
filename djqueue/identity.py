"""Who this process is in the `worker` fields: random per process and boot, never a name that comes back."""

from __future__ import annotations

import os
import secrets
import socket

_identity: str | None = None


def identity() -> str:
    """Name this process: host, pid and randomness, so that a restarted pod is somebody else."""
    global _identity
    if _identity is None:
        host = "".join(c if c.isalnum() or c in "-." else "-" for c in socket.gethostname())[:40]
        _identity = f"{host}:{os.getpid()}:{secrets.token_hex(6)}"
    return _identity


def _forget() -> None:
    global _identity
    _identity = None


os.register_at_fork(after_in_child=_forget)
