"""Errors of the commands."""

from __future__ import annotations

from django.core.management.base import CommandError


def bad_arguments(message: str) -> CommandError:
    return CommandError(message, returncode=2)
