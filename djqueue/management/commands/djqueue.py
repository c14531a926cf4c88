"""Inspect and operate the queue."""

from __future__ import annotations

import argparse
from types import ModuleType
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, InterfaceError, connections

from djqueue.conf import config
from djqueue.exceptions import DjqueueError
from djqueue.management.terminal import (
    cancel,
    doctor,
    enqueue,
    health,
    jobs,
    limit,
    limits,
    pause,
    requeue,
    resume,
    schedules,
    show,
    stats,
    sweep,
    topics,
    workers,
)
from djqueue.management.terminal.output import Output, discard

SUBCOMMANDS: dict[str, ModuleType] = {
    "stats": stats,
    "jobs": jobs,
    "show": show,
    "enqueue": enqueue,
    "cancel": cancel,
    "requeue": requeue,
    "pause": pause,
    "resume": resume,
    "limits": limits,
    "limit": limit,
    "workers": workers,
    "schedules": schedules,
    "sweep": sweep,
    "topics": topics,
    "health": health,
    "doctor": doctor,
}
AWAY = (DatabaseError, InterfaceError, ImproperlyConfigured)
INTERRUPTED = 1
# Options of every Django command: they may also be given after the subcommand.
COMMON = ("--settings", "--pythonpath", "--traceback", "--no-color", "--force-color")


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = []  # it must also run where something is wrong

    def add_arguments(self, parser: CommandParser) -> None:
        chosen = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", required=True)
        for name, module in SUBCOMMANDS.items():
            subparser = chosen.add_parser(name, help=module.__doc__, description=module.__doc__)
            module.add_arguments(subparser)
            for option in COMMON:
                add_common(subparser, option)

    def handle(self, *args: Any, **options: Any) -> None:
        output = Output(self.stdout, self.stderr, options)
        try:
            code = SUBCOMMANDS[options["subcommand"]].run(output, options)
            self.stdout.flush()
        except BrokenPipeError:  # the reader, such as head, has seen enough
            discard(self.stdout)
            return
        except KeyboardInterrupt:
            if not getattr(self, "_called_from_command_line", False):
                raise
            raise SystemExit(INTERRUPTED) from None
        except DjqueueError as error:
            raise CommandError(str(error)) from error
        except AWAY as error:
            raise CommandError(explain(error)) from error
        if code:
            raise SystemExit(code)


def add_common(parser: CommandParser, option: str) -> None:
    """Add an option of Django's; if it is not given here, what was given before the subcommand counts."""
    if option in parser._option_string_actions:
        return
    if option in ("--settings", "--pythonpath"):
        parser.add_argument(option, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    else:
        parser.add_argument(option, action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def explain(error: Exception) -> str:
    """Return one line on why the database cannot be used."""
    connection = connections[config().database]
    where = f"the database {connection.alias!r}"
    try:
        if "djqueue_job" not in connection.introspection.table_names():
            return (
                f"The tables of djqueue do not exist in {where}. "
                f"Run manage.py migrate djqueue --database {connection.alias}"
            )
    except AWAY as other:
        error = other
    reason = " ".join(str(error).split()) or type(error).__name__
    return f"{where[0].upper()}{where[1:]} cannot be used: {reason}"
