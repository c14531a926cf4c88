"""Inspect and operate the queue."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from djqueue.management.terminal import doctor, health, topics
from djqueue.management.terminal.output import Output

SUBCOMMANDS: dict[str, ModuleType] = {"doctor": doctor, "health": health, "topics": topics}


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = []  # it must also run where something is wrong

    def add_arguments(self, parser: CommandParser) -> None:
        chosen = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", required=True)
        for name, module in SUBCOMMANDS.items():
            module.add_arguments(chosen.add_parser(name, help=module.__doc__, description=module.__doc__))

    def handle(self, *args: Any, **options: Any) -> None:
        if code := SUBCOMMANDS[options["subcommand"]].run(Output(self.stdout), options):
            raise SystemExit(code)
