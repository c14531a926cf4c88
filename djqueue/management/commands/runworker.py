"""Runs jobs."""

from __future__ import annotations

import logging
import signal
import sys
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from djqueue.conf import config
from djqueue.exceptions import InvalidOption
from djqueue.identity import identity
from djqueue.options import check_queue
from djqueue.worker.process import Options, Worker

LEVELS = {0: logging.ERROR, 1: logging.INFO, 2: logging.DEBUG, 3: logging.DEBUG}


class Command(BaseCommand):
    help = "Run jobs until TERM or INT; a second signal stops at once."
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--queue", action="append", default=[], metavar="NAME[=CONCURRENCY]", help="only this queue"
        )
        parser.add_argument("--exclude", action="append", default=[], metavar="NAME", help="all queues but this one")
        parser.add_argument("--threads", type=int, default=4, help="jobs of plain functions at once (default 4)")
        parser.add_argument("--burst", action="store_true", help="end when nothing is due")
        parser.add_argument("--max-jobs", type=int, help="end after so many jobs")
        parser.add_argument("--no-maintenance", action="store_true", help="no reaper, promoter and sweeps here")

    def handle(self, *args: Any, **options: Any) -> None:
        worker = Worker(self.read_options(options))
        self.set_up_logging(options["verbosity"])
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, worker.stop)
        self.wait_for_tables()
        self.print_banner(worker.options)
        sys.exit(worker.run())

    def read_options(self, given: dict[str, Any]) -> Options:
        try:
            queues = dict(_read_queue(text) for text in given["queue"])
            for name in given["exclude"]:
                check_queue(name)
        except InvalidOption as error:
            raise CommandError(str(error)) from error
        for name in ("threads", "max_jobs"):
            if given[name] is not None and given[name] < 1:
                raise CommandError(f"--{name.replace('_', '-')} must be 1 or more")
        return Options(
            queues=queues,
            exclude=given["exclude"],
            threads=given["threads"],
            burst=given["burst"],
            max_jobs=given["max_jobs"],
            maintenance=not given["no_maintenance"],
        )

    def set_up_logging(self, verbosity: int) -> None:
        logger = logging.getLogger("djqueue")
        logger.setLevel(LEVELS[verbosity])
        if not logger.hasHandlers():
            handler = logging.StreamHandler(sys.stdout)
            handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
            logger.addHandler(handler)

    def wait_for_tables(self) -> None:
        """A worker may be started before the migrations of its release have run."""
        connection = connections[config().database]
        said = False
        while "djqueue_job" not in connection.introspection.table_names():
            if not said:
                self.stderr.write("The tables of djqueue are not there yet: waiting for manage.py migrate.")
                said = True
            time.sleep(1)

    def print_banner(self, options: Options) -> None:
        queues = ", ".join(f"{name}={limit}" if limit else name for name, limit in options.queues.items()) or "all"
        but = f" but {', '.join(options.exclude)}" if options.exclude else ""
        upkeep = "" if options.maintenance else " maintenance=off"
        self.stdout.write(
            f"djqueue worker {identity()} queues={queues}{but} database={config().database} "
            f"threads={options.threads}{upkeep}"
        )
        self.stdout.flush()


def _read_queue(text: str) -> tuple[str, int | None]:
    name, equals, limit = text.partition("=")
    check_queue(name)
    if not equals:
        return name, None
    if not limit.isdigit() or int(limit) < 1:
        raise InvalidOption(f"--queue {text}: the concurrency must be a whole number of 1 or more")
    return name, int(limit)
