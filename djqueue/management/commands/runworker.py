"""Runs jobs."""

from __future__ import annotations

import logging
import os
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
from djqueue.worker import databases, reload
from djqueue.worker.options import Options
from djqueue.worker.pulse import AWAY
from djqueue.worker.single import SingleProcess
from djqueue.worker.supervisor import Supervisor
from djqueue.worker.template import check_project

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LEVELS = {0: logging.ERROR, 1: logging.INFO, 2: logging.DEBUG, 3: logging.DEBUG}
CAN_FORK = hasattr(os, "fork")
MEGABYTE = 1024 * 1024


class Command(BaseCommand):
    help = "Run jobs until TERM or INT; a second signal stops at once."
    requires_migrations_checks = False
    requires_system_checks = []  # they import the project's tasks, which is the template's part

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--queue",
            action="append",
            default=[],
            metavar="NAME[=CONCURRENCY]",
            help="only this queue; several in the order of preference",
        )
        parser.add_argument("--exclude", action="append", default=[], metavar="NAME", help="all queues but this one")
        parser.add_argument(
            "--processes",
            type=int,
            default=1 if CAN_FORK else 0,
            help="worker processes (default 1); 0 runs everything in this one",
        )
        parser.add_argument(
            "--threads", type=int, default=4, help="plain functions at once in each process (default 4)"
        )
        parser.add_argument("--burst", action="store_true", help="end when nothing is due")
        parser.add_argument("--max-jobs", type=int, help="replace a process after so many jobs")
        parser.add_argument("--max-memory", type=int, metavar="MB", help="replace a process that grows beyond this")
        parser.add_argument("--reload", action="store_true", help="start over when code changes (for development)")
        parser.add_argument("--no-scheduler", action="store_true", help="no schedules here")
        parser.add_argument(
            "--no-maintenance", action="store_true", help="no reaper, promoter, sweeps and schedules here"
        )
        parser.add_argument("--name", default="", help="shown in the list of workers and in process titles")

    def handle(self, *args: Any, **given: Any) -> None:
        options = self.read_options(given)
        self.set_up_logging(given["verbosity"])
        if given["reload"]:
            reload.run()
        reload.end_with_reloader()
        databases.prepare()
        sys.exit(self.run_worker(options))

    def run_worker(self, options: Options) -> int:
        if options.processes:
            return Supervisor(options).run(lambda: self.prepare(options))
        check_project()
        self.prepare(options)
        worker = SingleProcess(options)
        for number in SIGNALS:
            signal.signal(number, worker.stop)
        return worker.run()

    def read_options(self, given: dict[str, Any]) -> Options:
        try:
            queues = dict(_read_queue(text) for text in given["queue"])
            for name in given["exclude"]:
                check_queue(name)
        except InvalidOption as error:
            raise CommandError(str(error)) from error
        for name, least in {"processes": 0, "threads": 1, "max_jobs": 1, "max_memory": 1}.items():
            if given[name] is not None and given[name] < least:
                raise CommandError(f"--{name.replace('_', '-')} must be {least} or more")
        if given["processes"] and not CAN_FORK:
            raise CommandError("this system cannot fork: use --processes 0, and start several workers")
        return Options(
            queues=queues,
            exclude=given["exclude"],
            processes=given["processes"],
            threads=given["threads"],
            burst=given["burst"],
            max_jobs=given["max_jobs"],
            max_memory=given["max_memory"] and given["max_memory"] * MEGABYTE,
            scheduler=not given["no_scheduler"],
            maintenance=not given["no_maintenance"],
            name=given["name"],
        )

    def set_up_logging(self, verbosity: int) -> None:
        logger = logging.getLogger("djqueue")
        logger.setLevel(LEVELS[verbosity])
        if not logger.hasHandlers():
            handler = logging.StreamHandler(sys.stdout)
            handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
            logger.addHandler(handler)

    def prepare(self, options: Options) -> None:
        for number in SIGNALS:  # there is nothing to drain yet
            signal.signal(number, lambda *_: sys.exit(0))
        self.wait_for_tables()
        self.print_banner(options)
        connections.close_all()

    def wait_for_tables(self) -> None:
        """A worker may be started before its database, and before the migrations of its release have run."""
        connection = connections[config().database]
        said = ""
        while True:
            try:
                if "djqueue_job" in connection.introspection.table_names():
                    return
                problem = "The tables of djqueue are not there yet: waiting for manage.py migrate."
            except AWAY as error:
                connection.close()
                problem = f"The database does not answer, trying again: {error}".strip()
            if problem != said:
                self.stderr.write(problem)
                said = problem
            time.sleep(0.5)

    def print_banner(self, options: Options) -> None:
        queues = ", ".join(f"{name}={limit}" if limit else name for name, limit in options.queues.items()) or "all"
        but = f" but {', '.join(options.exclude)}" if options.exclude else ""
        parts = [
            f"djqueue worker {identity()}",
            *([f"name={options.name}"] if options.name else []),
            f"queues={queues}{but}",
            f"database={config().database}",
            f"processes={options.processes}",
            f"threads={options.threads}",
            f"wake-up={databases.wake_up()}",
            *([] if options.maintenance else ["maintenance=off"]),
            *([] if options.scheduler and options.maintenance else ["schedules=off"]),
        ]
        self.stdout.write(" ".join(parts))
        self.stdout.flush()


def _read_queue(text: str) -> tuple[str, int | None]:
    name, equals, limit = text.partition("=")
    check_queue(name)
    if not equals:
        return name, None
    if not limit.isdigit() or int(limit) < 1:
        raise InvalidOption(f"--queue {text}: the concurrency must be a whole number of 1 or more")
    return name, int(limit)
