"""`python -m benchmarks.soak`: the options, and the course of a soak test."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import django
from django.core.management import call_command

import benchmarks.soak

from . import audit, evidence, report
from .databases import DATABASES, Database
from .faults import Faults
from .ledger import FOLDER, Ledger
from .producers import KEYS
from .workers import Program, start_operator, start_producer, start_worker

WORKERS = PRODUCERS = 2
START_WITHIN = 60.0  # seconds
PROBE_WITHIN = 30.0
REPORT_EVERY = 5.0
TURN = 0.1


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak",
        description=benchmarks.soak.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--minutes", type=float, default=10.0, help="how long there are faults (default: 10)")
    add("--kill-every", type=float, default=5.0, metavar="S", help="mean seconds between two faults (default: 5)")
    add("--database", choices=[*DATABASES], default="postgresql")
    add("--seed", type=int, help="the seed of the faults and jobs (default: a random one, which is printed)")
    add("--rate", type=float, default=100.0, help="jobs per second (default: 100)")
    add("--drain", type=float, default=300.0, metavar="S", help="seconds that the drain may take (default: 300)")
    add("--plot", type=Path, metavar="FILE.png", help="draw the throughput and the faults over time")
    options = parser.parse_args(arguments)
    if options.seed is None:
        options.seed = random.randrange(1_000_000)
    return options


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that all processes are stopped
    try:
        with ExitStack() as stack:
            return Soak(options, stack).run()
    except KeyboardInterrupt:
        print("interrupted: all processes are stopped, and there was no audit", file=sys.stderr)
        return 130


class Soak:
    """One soak test."""

    def __init__(self, options: argparse.Namespace, stack: ExitStack) -> None:
        self.options = options
        self.stack = stack
        self.folder = Path(tempfile.mkdtemp(prefix="djqueue-soak-"))
        os.environ[FOLDER] = str(self.folder)
        os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.soak.settings"
        self.begin = time.monotonic()
        self.reported = 0.0
        self.problems: list[str] = []

    def run(self) -> int:
        """Return the exit code. The folder is kept unless all is well, or the user has had enough."""
        try:
            violated = any(self.observe().values())
        except KeyboardInterrupt:
            # A second signal must not leave processes behind.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        except BaseException:
            print(f"ledgers and logs are in {self.folder}", file=sys.stderr)
            raise
        if violated:
            print(f"VIOLATED (seed {self.options.seed}); ledgers and logs are in {self.folder}")
            return 1
        shutil.rmtree(self.folder, ignore_errors=True)
        print(f"no violation (seed {self.options.seed})")
        return 0

    def observe(self) -> dict[str, list[str]]:
        """Run everything, and return the violations of each rule."""
        database = self.set_up()
        self.say(f"{self.options.database}, seed {self.options.seed}, {self.options.rate:g} jobs/s")
        # The second of each connects through the proxy, if there is one.
        urls = ["", database.second_url]
        workers = [self.started(start_worker(number, urls[number % 2])) for number in range(WORKERS)]
        self.wait_until_ready()
        share = self.options.rate / PRODUCERS
        clients = [
            self.started(start_producer(number, self.options.seed, share, urls[number % 2]))
            for number in range(PRODUCERS)
        ]
        clients.append(self.started(start_operator(self.options.seed)))
        faults = Faults(self.options.seed, database, workers, self.say)
        self.stack.callback(faults.end)
        self.begin = time.monotonic()
        self.strike(faults, [*workers, *clients])
        faults.end()
        for client in clients:
            self.stop(client)
        self.drain()
        self.probe_limits()
        for worker in workers:
            self.stop(worker)
        seen = evidence.collect(self.folder, faults.past)
        seen.problems = self.problems
        found = audit.violations(seen)
        report.show(seen, found)
        if self.options.plot:
            report.draw(seen, self.begin, self.options.plot)
        return found

    def set_up(self) -> Database:
        database = DATABASES[self.options.database](self.stack)
        database.start()
        self.set_up_django()
        return database

    def set_up_django(self) -> None:
        django.setup()
        call_command("migrate", verbosity=0)
        if depth():
            raise SystemExit("The database contains jobs. Use an empty one.")

    def started(self, program: Program) -> Program:
        self.stack.callback(program.kill)
        return program

    def wait_until_ready(self, workers: int = WORKERS) -> None:
        from djqueue.models import Worker

        deadline = time.monotonic() + START_WITHIN
        while len(set(Worker.objects.filter(stopped_at=None).values_list("supervisor", flat=True))) < workers:
            if time.monotonic() > deadline:
                raise SystemExit(f"The workers are not ready after {START_WITHIN:g} s; see the logs in {self.folder}.")
            time.sleep(TURN)

    def strike(self, faults: Faults, programs: list[Program]) -> None:
        """Do faults at random moments until the time is over."""
        end = self.begin + 60 * self.options.minutes
        moments = random.Random(self.options.seed)
        due = self.begin
        while time.monotonic() < end:
            due = max(due, time.monotonic()) + moments.uniform(0.5, 1.5) * self.options.kill_every
            while time.monotonic() < min(due, end):
                time.sleep(TURN)
                self.progress()
                self.check(programs)
            if due < end:
                faults.strike()

    def check(self, programs: list[Program]) -> None:
        """Note a process that has exited without having been killed, and start it again."""
        for program in programs:
            if program.process.poll() is not None:
                self.problems.append(f"{program.name} exited with code {program.process.returncode}; see its log")
                self.say(self.problems[-1])
                program.start()

    def stop(self, program: Program) -> None:
        if (code := program.stop()) != 0:
            reason = "did not exit in time" if code is None else f"exited with code {code}"
            self.problems.append(f"{program.name} {reason} after SIGTERM; see its log")

    def drain(self) -> None:
        self.say("no more faults and no more jobs: the workers drain the queue")
        deadline = time.monotonic() + self.options.drain
        while depth() and time.monotonic() < deadline:
            time.sleep(TURN)
            self.progress()
        self.say(f"{depth()} jobs left")

    def probe_limits(self) -> None:
        """Run jobs of every limit key, which needs that no permit is lost."""
        from .tasks import AT_ONCE, limited

        ledger = Ledger("producer")
        for key in range(KEYS):
            for handle in limited.enqueue_many([limited.call(key, 0) for _ in range(AT_ONCE + 1)]):
                ledger.write("acknowledged", "probe of a limit", handle.id, handle.created)
        deadline = time.monotonic() + PROBE_WITHIN
        while depth() and time.monotonic() < deadline:
            time.sleep(TURN)

    def progress(self) -> None:
        from django.db import DatabaseError, InterfaceError, connection

        if time.monotonic() < self.reported + REPORT_EVERY:
            return
        self.reported = time.monotonic()
        try:
            self.say(f"{depth()} live jobs, {count_done()} done")
        except (DatabaseError, InterfaceError):
            connection.close()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.begin:7.1f} s] {text}", flush=True)


def depth() -> int:
    from djqueue.models import Job

    return Job.objects.count()


def count_done() -> int:
    from djqueue.models import DoneJob

    return DoneJob.objects.count()
