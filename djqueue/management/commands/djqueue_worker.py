"""`runworker` under a name that does not clash with other apps."""

from .runworker import Command

__all__ = ["Command"]
