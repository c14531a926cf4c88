"""`runworker` under a name that no other app has."""

from djqueue.management.commands.runworker import Command

__all__ = ["Command"]
