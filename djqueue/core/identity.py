"""The identity of this process in the `worker` columns: random, so that it is never reused."""

from __future__ import annotations

import os
import secrets
import socket

_identity: str | None = None


def identity() -> str:
    """Return the host, the pid and a random part, so that a restarted container has another identity."""
    global _identity
    if _identity is None:
        host = "".join(c if c.isalnum() or c in "-." else "-" for c in socket.gethostname())[:40]
        _identity = f"{host}:{os.getpid()}:{secrets.token_hex(6)}"
    return _identity


def _forget() -> None:
    global _identity
    _identity = None


os.register_at_fork(after_in_child=_forget)
