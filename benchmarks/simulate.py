"""Simulate many hosts on one PostgreSQL: every host is a real `runworker`, with a supervisor and processes of its own.

    python -m benchmarks.simulate [--quick] [--hosts 1 2 5 10 20] [--threads 4] [--rate 5] [--duration 0.4]
                                  [--database-url postgres://…] [--output simulation.md]

Tasks sleep, so that a small machine can stand for many hosts. For each number of hosts, one after the other:

- idle: no jobs;
- sparse: --sparse jobs per second in total, so that nearly all hosts are idle;
- busy: --rate jobs per second for each host, at random times (a Poisson process);
- backlog: as many jobs as keep all threads busy for some time, enqueued before they may start;
- empty tasks: the same with tasks that do nothing, which the processors of this machine limit.

At the end, the script checks that every job has run exactly once, and compares the figures with a queueing model. The
server is its own (without fsync), or that of --database-url, whose queue must be empty.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import postgres

from . import workers
from .database import set_up
from .simulate_report import Phase, Step, per_host, report, verdict
from .worker import is_busy, run
from .workers import Running, worker

if TYPE_CHECKING:
    from uuid import UUID

QUICK = {"hosts": [1, 3], "idle": 10.0, "seconds": 8.0, "empty": 1000}
SETTLE = 2.0  # seconds after the start of a host, which does all periodic work once
SAMPLE = 0.25


def main() -> None:
    parser = arguments()
    if parser.parse_args().quick:
        parser.set_defaults(**QUICK)
    options = parser.parse_args()
    if options.database_url:
        os.environ[postgres.VARIABLE] = options.database_url
    random.seed(options.seed)
    set_up()
    need = 20 + max(options.hosts) * per_host(options.processes, options.threads)
    if postgres.is_ours():
        allow_connections(need)
    if is_busy() or fetch("SELECT count(*) FROM djqueue_donejob"):
        raise SystemExit("The queue of this database is not empty.")
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder, "runs")
        runs.touch()
        os.environ["BENCHMARK_RUNS"] = str(runs)
        simulation = Simulation(options)
        simulation.run()
        good, verdict = simulation.check(runs)
    text = "\n".join([*report(options, simulation.steps), *sizes(), "", verdict, ""])
    print(text)
    Path(options.output).write_text(text)
    if not good:
        raise SystemExit(1)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few hosts and short phases, in less than two minutes")
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 2, 5, 10, 20], metavar="N")
    parser.add_argument("--processes", type=int, default=1, help="worker processes of each host")
    parser.add_argument("--threads", type=int, default=4, help="threads of each worker process")
    parser.add_argument("--duration", type=float, default=0.4, help="seconds that a task takes")
    parser.add_argument("--rate", type=float, default=5.0, help="jobs per second for each host, when busy")
    parser.add_argument("--sparse", type=float, default=2.0, help="jobs per second in total, when nearly idle")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the sparse and the busy phase")
    parser.add_argument("--idle", type=float, default=40.0, help="length of the idle phase")
    parser.add_argument("--waves", type=int, default=10, help="jobs per thread in the backlog")
    parser.add_argument("--empty", type=int, default=3000, help="number of empty tasks")
    parser.add_argument("--poll", type=float, help="seconds between polls, without wake-ups")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database-url", help="another PostgreSQL than one of its own")
    parser.add_argument("--output", default="simulation.md", help="file for the tables, in Markdown")
    return parser


def allow_connections(count: int) -> None:
    """Restart our own server with room for so many connections."""
    from django.db import connection

    run(f"ALTER SYSTEM SET max_connections = {max(100, count)}")
    connection.close()
    postgres.restart()


class Simulation:
    """Adds hosts step by step, and measures each step."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.hosts: list[Running] = []
        self.steps: list[Step] = []
        self.sent: list[UUID] = []
        self.postmaster = workers.postmaster(fetch("SELECT pg_backend_pid()"))

    def run(self) -> None:
        with ExitStack() as stack:
            try:
                for hosts in self.options.hosts:
                    while len(self.hosts) < hosts:
                        self.hosts.append(stack.enter_context(worker(*self._arguments(), **self._settings())))
                    time.sleep(SETTLE)
                    self.steps.append(self._step())
            finally:  # all at once, and not one after the other
                for host in self.hosts:
                    host.process.terminate()

    def check(self, runs: Path) -> tuple[bool, str]:
        """Return whether every job ran once and is done, and that in words."""
        from djqueue.models import DoneJob

        return verdict(self.sent, runs.read_bytes(), DoneJob.objects.filter(status="done", attempts=1).count())

    def _arguments(self) -> list[str]:
        options, number = self.options, len(self.hosts) + 1
        return ["--processes", str(options.processes), "--threads", str(options.threads), "--name", f"host-{number}"]

    def _settings(self) -> dict[str, Any]:
        return {"NOTIFY": False, "POLL_INTERVAL": self.options.poll} if self.options.poll else {}

    def _step(self) -> Step:
        options, hosts = self.options, len(self.hosts)
        print(f"{hosts} hosts", flush=True)
        return Step(
            hosts=hosts,
            idle=self._phase(lambda: time.sleep(options.idle)),
            sparse=self._produce(options.sparse, options.seconds),
            busy=self._produce(options.rate * hosts, options.seconds),
            backlog=self._drain(self._threads * options.waves, options.duration),
            empty=self._drain(options.empty, 0),
            connections=connections(),
            memory=sum(host.memory() for host in self.hosts) / hosts,
            load=os.getloadavg()[0],
        )

    @property
    def _threads(self) -> int:
        return len(self.hosts) * int(self.options.processes) * int(self.options.threads)

    def _phase(self, work: Callable[[], object]) -> Phase:
        statements, cpu, start = self._statements(), self._server_cpu(), time.monotonic()
        work()
        seconds, used = time.monotonic() - start, self._server_cpu()
        cpu = None if cpu is None or used is None else used - cpu
        return Phase(seconds, self._statements() - statements, cpu)

    def _produce(self, rate: float, seconds: float) -> Phase:
        """Enqueue jobs at random times, and wait until they are done."""
        import djqueue

        from .tasks import counted

        sent: dict[UUID, float] = {}
        samples: list[int] = []

        def work() -> None:
            start, due, sample_at = time.time(), random.expovariate(rate), 0.0
            while due < seconds:
                now = time.time() - start
                if now >= sample_at:
                    samples.append(claimed())
                    sample_at = now + SAMPLE
                elif now >= due:
                    count = 0
                    while due <= now:  # several if this machine is too slow for one at a time
                        due += random.expovariate(rate)
                        count += 1
                    at = time.time()
                    calls = [djqueue.call(self.options.duration) for _ in range(count)]
                    sent.update((handle.id, at) for handle in counted.enqueue_many(calls))
                else:
                    time.sleep(min(due, sample_at) - now)
            wait_until_done()

        phase = self._phase(work)
        phase.rate = len(sent) / seconds
        self.sent += sent
        phase.jobs = len(sent)
        phase.busy_threads = sum(samples) / len(samples)
        starts = started(sent)
        phase.pickups = sorted(starts[job] - at for job, at in sent.items() if job in starts)
        phase.waited = sum(
            sum(begin <= at < begin + self.options.duration for begin in starts.values()) >= self._threads
            for at in sent.values()
        )
        return phase

    def _drain(self, jobs: int, seconds: float) -> Phase:
        """Enqueue a backlog while the queue is paused, and measure from its resumption to the last job."""
        import djqueue

        from .tasks import counted

        queue = djqueue.Queue("default")
        queue.pause()
        self.sent += [handle.id for handle in counted.enqueue_many(djqueue.call(seconds) for _ in range(jobs))]
        run("VACUUM ANALYZE djqueue_job")

        def work() -> None:
            queue.resume()
            wait_until_done()

        phase = self._phase(work)
        phase.jobs = jobs
        return phase

    def _statements(self) -> int:
        return sum(host.statements() for host in self.hosts)

    def _server_cpu(self) -> float | None:
        return None if self.postmaster is None else workers.server_cpu(self.postmaster)


def fetch(sql: str) -> int:
    from djqueue.sql import statements

    return int(statements().fetch(sql)[0][0])


def connections() -> int:
    """Return how many connections the hosts have."""
    return fetch(f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{workers.APPLICATION}'")


def claimed() -> int:
    return fetch("SELECT count(*) FROM djqueue_job WHERE status = 'claimed'")


def started(jobs: Iterable[UUID]) -> dict[UUID, float]:
    from djqueue.models import DoneJob

    return dict(DoneJob.objects.filter(pk__in=list(jobs)).values_list("pk", "result"))


def wait_until_done() -> None:
    while is_busy():
        time.sleep(0.02)


def sizes() -> list[str]:
    """Return the sizes of the tables."""
    run("VACUUM ANALYZE djqueue_donejob")
    count = fetch("SELECT count(*) FROM djqueue_donejob")
    total = fetch("SELECT pg_total_relation_size('djqueue_donejob')")
    jobs = fetch("SELECT pg_total_relation_size('djqueue_job')")
    return [
        f"A done job takes {total / count:.0f} bytes with its indexes ({count:,} jobs). The table of live jobs is "
        f"empty now, and takes {jobs / 1024:,.0f} KB with its indexes."
    ]


if __name__ == "__main__":
    main()
