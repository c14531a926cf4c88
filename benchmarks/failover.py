"""Kill the primary of two PostgreSQL servers while jobs are enqueued and run, promote the other, and count the jobs.

    python -m benchmarks.failover [--asynchronous] [--rate 50]

The producer and a real worker use both servers through a multi-host DSN (target_session_attrs=read-write). Without
--asynchronous, replication is synchronous. With it, the standby is one second behind when the primary dies.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING

from .cluster import postgresql
from .cluster.servers import ADDRESS, call, folder_of, free_port
from .database import set_up
from .workers import worker

if TYPE_CHECKING:
    from uuid import UUID

BEFORE, PROMOTED_AFTER, AFTER = 5.0, 1.0, 15.0  # seconds
BEHIND = 1.0
DURATION = 0.05


class Server:
    """One PostgreSQL in a folder, on a port of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.data = folder_of(folder, name)
        self.config = self.data / "postgresql.auto.conf"
        self.port = free_port()

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of PostgreSQL; a server must not keep the other end of a pipe."""
        call(postgresql.programs() / program, "-D", self.data, *arguments, capture_output=False, stdout=DEVNULL)

    def configure(self, **settings: object) -> None:
        lines = [f"{name} = '{value}'" for name, value in settings.items()]
        with self.config.open("a") as file:
            file.write("\n".join([*lines, f"port = {self.port}", f"listen_addresses = '{ADDRESS}'", ""]))
            file.write("unix_socket_directories = ''\nfsync = off\n")

    def control(self, *arguments: str) -> None:
        self.run("pg_ctl", "-w", "-l", str(self.data / "log"), *arguments)

    def stop_receiving(self) -> None:
        """Let this standby fall behind."""
        self.configure(primary_conninfo="")
        self.control("reload")

    def kill(self) -> None:
        postgresql.kill(self.data)


def start_pair(first: Server, second: Server, synchronous: bool) -> None:
    first.run("initdb", "-U", "postgres", "-A", "trust", "--no-sync")
    first.configure(synchronous_standby_names="standby" if synchronous else "")
    source = f"host={ADDRESS} port={first.port} user=postgres application_name=standby"
    first.control("start")
    second.run("pg_basebackup", "-d", source, "--checkpoint=fast", "--no-sync")
    second.configure(primary_conninfo=source, synchronous_standby_names="")
    (second.data / "standby.signal").touch()
    second.control("start")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--asynchronous", action="store_true")
    parser.add_argument("--rate", type=float, default=50.0, help="jobs per second")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="djqueue-failover-")))
        folder.chmod(0o755)  # the servers may run as another user
        first, second = Server(folder, "first"), Server(folder, "second")
        for server in (first, second):
            stack.callback(server.kill)
        start_pair(first, second, not options.asynchronous)
        hosts = f"{ADDRESS}:{first.port},{ADDRESS}:{second.port}"
        os.environ["DATABASE_URL"] = f"postgres://postgres@{hosts}/postgres?target_session_attrs=read-write"
        set_up()
        os.environ["BENCHMARK_RUNS"] = str(folder / "runs")
        stack.enter_context(worker("--threads", "8"))
        report(not options.asynchronous, *fail_over(first, second, options), (folder / "runs").read_bytes())


def fail_over(first: Server, second: Server, options: argparse.Namespace) -> tuple[set[UUID], int, float]:
    """Enqueue jobs before, during and after it.

    Return the jobs that were acknowledged, how many were refused, and the time of the last one.
    """
    from django.db import DatabaseError, connection

    from .tasks import counted
    from .worker import is_busy

    acknowledged: set[UUID] = set()
    refused, start = 0, time.monotonic()
    steps = [(BEFORE, first.kill), (BEFORE + PROMOTED_AFTER, lambda: second.control("promote"))]
    if options.asynchronous:
        steps.insert(0, (BEFORE - BEHIND, second.stop_receiving))
    end = BEFORE + PROMOTED_AFTER + AFTER
    while (now := time.monotonic() - start) < end:
        if steps and now >= steps[0][0]:
            steps.pop(0)[1]()
        try:
            acknowledged.add(counted.enqueue(DURATION).id)
        except DatabaseError:
            refused += 1
            connection.close()
        time.sleep(1 / options.rate)
    last = time.time()
    while is_busy():
        time.sleep(0.1)
    return acknowledged, refused, last


def report(synchronous: bool, acknowledged: set[UUID], refused: int, last: float, runs: bytes) -> None:
    from djqueue.models import DoneJob

    done = dict(DoneJob.objects.filter(status="done").values_list("pk", "result"))
    ran = Counter(runs[place : place + 16] for place in range(0, len(runs), 16))
    # Not those that were waited for afterwards: they start when their leases have expired.
    starts = sorted(at for at in done.values() if at < last)
    gap = max(after - before for before, after in pairwise(starts))
    print(f"{len(acknowledged)} jobs acknowledged, {refused} refused while no server accepted writes")
    lost = len(acknowledged - set(done))
    print(f"{lost} lost, {sum(count > 1 for count in ran.values())} ran more than once")
    print(f"{len(set(done) - acknowledged)} jobs done whose enqueue raised an error")
    print(f"no job started for {gap:.1f} s; the standby was promoted {PROMOTED_AFTER:g} s after the primary died")
    if synchronous and lost:
        raise SystemExit("WRONG: with synchronous replication, no acknowledged job may be lost.")


if __name__ == "__main__":
    main()
