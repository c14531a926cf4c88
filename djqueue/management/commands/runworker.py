"""Run a worker."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.sqlite3.base import DatabaseWrapper as SQLiteWrapper

from djqueue.checks import SETTINGS
from djqueue.conf import config
from djqueue.core import registry
from djqueue.core.log import LineHandler
from djqueue.core.names import MAX_NAME
from djqueue.core.options import check_queue
from djqueue.core.payload import storable
from djqueue.exceptions import InvalidOption
from djqueue.management import banner
from djqueue.management.errors import bad_arguments
from djqueue.waiting.wakeup_sources import private_connection
from djqueue.worker import databases, in_transaction, reload
from djqueue.worker.forkserver import check_project
from djqueue.worker.options import Options
from djqueue.worker.outages import AWAY
from djqueue.worker.process.main import work
from djqueue.worker.single_process import SingleProcess
from djqueue.worker.supervisor.supervisor import Supervisor

LEVELS = {0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG, 3: logging.DEBUG}
CAN_FORK = hasattr(os, "fork")
MEGABYTE = 1024 * 1024
# Seconds after which the reason for waiting is printed again.
REMIND_AFTER = 60.0
# Seconds that the start waits for the notes on queues.
NOTES_WITHIN = 2.0


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
        if given["reload"] and not reload.is_watched():
            reload.Watcher().run()
        self.check(tags=[SETTINGS])
        if problem := databases.pool_problem(connections[config().database], options.threads):
            self.stderr.write(problem)
        reload.obey_watcher()
        try:
            with logging_to_stdout(given["verbosity"]):
                code = self.run(options, given["verbosity"])
        except ImproperlyConfigured as error:  # for example a database without a NAME
            raise CommandError(str(error)) from error
        if code:
            raise CommandError(f"The worker exited with code {code}. The reason is in its log.", returncode=code)

    def run(self, options: Options, verbosity: int) -> int:
        connection = connections[config().database]
        if connection.in_atomic_block:
            if not options.burst:
                raise CommandError("In a transaction, such as that of a TestCase, runworker requires --burst.")
            in_transaction.run(options)
            return 0
        self.check_memory(connection, options)
        with databases.prepared(), signal_handlers_kept():
            return self.run_worker(options, verbosity)

    def run_worker(self, options: Options, verbosity: int) -> int:
        if options.processes:
            return Supervisor(options, work).run(lambda: self.prepare(options, verbosity))
        check_project()
        self.prepare(options, verbosity)
        worker = SingleProcess(options)
        on_stop_signals(worker.stop)
        return worker.run()

    def read_options(self, given: dict[str, Any]) -> Options:
        try:
            queues = dict(_read_queue(str(text or "")) for text in given["queue"])
            for name in given["exclude"]:
                check_queue(name)
        except InvalidOption as error:
            raise bad_arguments(str(error)) from error
        if both := sorted(set(queues) & set(given["exclude"])):
            raise bad_arguments(f"--queue and --exclude must not name the same queue, got {', '.join(both)}")
        for name, least in {"processes": 0, "threads": 1, "max_jobs": 1, "max_memory": 1}.items():
            value = given[name]
            # argparse of Python 3.11 reads "--threads=--" as an empty list.
            if value is not None and (not isinstance(value, int) or value < least):
                raise bad_arguments(f"--{name.replace('_', '-')} must be {least} or more, got {value}")
        if not isinstance(given["name"], str) or len(given["name"]) > MAX_NAME or not storable(given["name"]):
            raise bad_arguments(
                f"--name must be at most {MAX_NAME} characters, without NUL characters, got {given['name']!r:.80}"
            )
        if given["processes"] and not CAN_FORK:
            raise bad_arguments(
                "This platform does not support os.fork(). Use --processes 0 and start several workers."
            )
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

    def check_memory(self, connection: BaseDatabaseWrapper, options: Options) -> None:
        """Refuse a database in memory that the threads or processes of a worker cannot see."""
        where = f"the database {connection.alias!r}"
        if isinstance(connection, SQLiteWrapper) and connection.is_in_memory_db():
            if "cache=shared" not in str(connection.settings_dict["NAME"]):
                raise CommandError(f"A worker cannot use {where}, which is in memory: its NAME must be a file.")
            if options.processes:
                raise CommandError(f"Worker processes cannot use {where}, which is in memory. Use --processes 0.")

    def prepare(self, options: Options, verbosity: int) -> None:
        on_stop_signals(lambda *_: sys.exit(0))  # no job is running yet
        self.wait_for_tables()
        self.stdout.write(banner.banner(options))
        if verbosity > 1:
            self.stdout.write("\n".join(banner.tasks()))
        self.stdout.flush()
        if not registry.known():
            self.stderr.write(banner.NO_TASKS)
        notes = threading.Thread(target=self.print_queue_notes, args=[options], daemon=True)
        notes.start()
        notes.join(NOTES_WITHIN)  # a slow database does not delay the start for longer

    def wait_for_tables(self) -> None:
        """Wait for the database and for its migrations: a deployment may start the worker first."""
        connection = private_connection(config().database)
        where = f"the database {connection.alias!r} ({connection.settings_dict['NAME']})"
        reported, remind_at = "", 0.0
        try:
            while problem := self.find_problem(connection, where):
                if problem != reported or time.monotonic() > remind_at:
                    self.stderr.write(problem)
                    reported, remind_at = problem, time.monotonic() + REMIND_AFTER
                time.sleep(0.5)
        finally:
            connection.close()

    def find_problem(self, connection: BaseDatabaseWrapper, where: str) -> str:
        """Return why the worker cannot start yet, or nothing."""
        try:
            if "djqueue_job" in connection.introspection.table_names():
                return ""
        except AWAY as error:
            connection.close()
            return f"Waiting for {where}: {error}".strip()
        command = f"manage.py migrate djqueue --database {connection.alias}"
        return f"The tables of djqueue do not exist in {where}; waiting for {command}"

    def print_queue_notes(self, options: Options) -> None:
        try:
            for note in banner.queue_notes(options):
                self.stderr.write(note)
        except AWAY:
            pass  # the worker itself reports that
        finally:
            connections.close_all()


@contextmanager
def logging_to_stdout(verbosity: int) -> Iterator[None]:
    """Set the level of the logger, and write to stdout if the project has configured no handler."""
    logger = logging.getLogger("djqueue")
    level, handler = logger.level, LineHandler(sys.stdout)
    logger.setLevel(LEVELS[verbosity])
    if not logger.hasHandlers():
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


@contextmanager
def signal_handlers_kept() -> Iterator[None]:
    """Restore the signal handlers that the worker replaces."""
    before = {number: signal.getsignal(number) for number in reload.stop_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            if _in_main_thread():
                signal.signal(number, handler)


def on_stop_signals(handler: Callable[[int, FrameType | None], object]) -> None:
    if _in_main_thread():  # other threads cannot set handlers
        for number in reload.stop_signals():
            signal.signal(number, handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _read_queue(text: str) -> tuple[str, int | None]:
    name, equals, limit = text.partition("=")
    check_queue(name)
    if not equals:
        return name, None
    if not limit.isdecimal() or len(limit) > 9 or int(limit) < 1:
        raise InvalidOption(f"--queue {name}: the concurrency must be a whole number of 1 or more, got {limit!r:.80}")
    return name, int(limit)
