"""Run a worker."""

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
from djqueue.core.identity import identity
from djqueue.core.options import MAX_NAME, check_queue
from djqueue.core.payload import storable
from djqueue.exceptions import InvalidOption
from djqueue.worker import databases, reload
from djqueue.worker.forkserver import check_project
from djqueue.worker.options import Options
from djqueue.worker.outages import AWAY
from djqueue.worker.process.main import work
from djqueue.worker.single_process import SingleProcess
from djqueue.worker.supervisor.supervisor import Supervisor

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LEVELS = {0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG, 3: logging.DEBUG}
CAN_FORK = hasattr(os, "fork")
MEGABYTE = 1024 * 1024


class Command(BaseCommand):
    help = (
        "Run a worker. On SIGTERM or SIGINT, running jobs are allowed to finish. On a second signal, they are released."
    )
    requires_migrations_checks = False
    requires_system_checks = []  # they would import the project's tasks into the supervisor

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--queue",
            action="append",
            default=[],
            metavar="NAME[=CONCURRENCY]",
            help="consume only this queue; repeat for several, most preferred first. "
            "CONCURRENCY limits its jobs per worker process",
        )
        parser.add_argument(
            "--exclude",
            action="append",
            default=[],
            metavar="NAME",
            help="consume all queues except this one; repeat for several",
        )
        parser.add_argument(
            "--processes",
            type=int,
            default=1 if CAN_FORK else 0,
            metavar="N",
            help="number of worker processes (default: %(default)s); 0 runs jobs in the process of this command",
        )
        parser.add_argument(
            "--threads",
            type=int,
            default=4,
            metavar="N",
            help="threads per process for synchronous tasks (default: %(default)s)",
        )
        parser.add_argument("--burst", action="store_true", help="exit when no job is due and none is running")
        parser.add_argument("--max-jobs", type=int, metavar="N", help="replace a process after N jobs")
        parser.add_argument(
            "--max-memory", type=int, metavar="MB", help="replace a process that uses more than MB megabytes"
        )
        parser.add_argument("--reload", action="store_true", help="restart when code changes (for development)")
        parser.add_argument("--no-scheduler", action="store_true", help="do not fire schedules")
        parser.add_argument(
            "--no-maintenance",
            action="store_true",
            help="do not reap, promote, sweep or fire schedules; another worker must do this",
        )
        parser.add_argument("--name", default="", help="name shown in the admin and in process titles")

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
            return Supervisor(options, work).run(lambda: self.prepare(options))
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
                raise CommandError(f"--{name.replace('_', '-')} must be {least} or more, got {given[name]}")
        if len(given["name"]) > MAX_NAME or not storable(given["name"]):
            raise CommandError(
                f"--name must be at most {MAX_NAME} characters, without NUL characters, got {given['name']!r:.80}"
            )
        if given["processes"] and not CAN_FORK:
            raise CommandError("This platform does not support os.fork(). Use --processes 0 and start several workers.")
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
        for number in SIGNALS:  # no job is running yet
            signal.signal(number, lambda *_: sys.exit(0))
        self.wait_for_tables()
        self.print_banner(options)
        connections.close_all()

    def wait_for_tables(self) -> None:
        """Wait for the database and for its migrations: a deployment may start the worker first."""
        connection = connections[config().database]
        reported = ""
        while True:
            try:
                if "djqueue_job" in connection.introspection.table_names():
                    return
                problem = "The tables of djqueue do not exist; waiting for manage.py migrate."
            except AWAY as error:
                connection.close()
                problem = f"Waiting for the database: {error}".strip()
            if problem != reported:
                self.stderr.write(problem)
                reported = problem
            time.sleep(0.5)

    def print_banner(self, options: Options) -> None:
        queues = ", ".join(f"{name}={limit}" if limit else name for name, limit in options.queues.items()) or "all"
        exclude = ", ".join(options.exclude)
        parts = [
            f"djqueue worker {identity()}",
            *([f"name={options.name}"] if options.name else []),
            f"queues={queues}",
            *([f"exclude={exclude}"] if exclude else []),
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
    if not limit.isdecimal() or len(limit) > 9 or int(limit) < 1:
        raise InvalidOption(f"--queue {name}: the concurrency must be a whole number of 1 or more, got {limit!r:.80}")
    return name, int(limit)
