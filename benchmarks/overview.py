"""Measure what the overview of the admin costs while several people keep it open: a real server process, and clients
that poll the fragment as an open page does. Print the CPU time of the server and of PostgreSQL as a share of a core.

    python -m benchmarks.overview [--people 10] [--seconds 60] [--rows 20000] [--most 1.0]

The workers' rows and the counts are those of a site with 20 queues and 20 workers. Exit with an error if the sum is
larger than `--most` percent of a core.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from tests import postgres

TICKS = os.sysconf("SC_CLK_TCK")
PORT = 8765


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--most", type=float, default=1.0, help="maximum percentage of a core")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    from .admin import set_up

    set_up()
    if options.serve:
        serve()
        return
    fill(options.rows)
    sessions = [log_in(number) for number in range(options.people)]
    server = subprocess.Popen([sys.executable, "-m", "benchmarks.overview", "--serve"], stderr=subprocess.DEVNULL)
    try:
        measure(server.pid, sessions, options)
    finally:
        server.kill()
        server.wait()


def serve() -> None:
    """Serve in one thread, with a database connection that stays open (CONN_MAX_AGE)."""
    from wsgiref.simple_server import make_server

    from django.core.wsgi import get_wsgi_application
    from django.db import connection

    connection.settings_dict["CONN_MAX_AGE"] = None
    make_server("127.0.0.1", PORT, get_wsgi_application()).serve_forever()


def fill(rows: int) -> None:
    from django.db import connection

    from tests.factories import WorkerFactory

    from .admin import fill_tables

    fill_tables(rows)
    for number in range(20):
        WorkerFactory(name=f"w{number}", queues=[f"q{number}"], threads=4, running=2)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE djqueue_worker SET heartbeat_at = now() + interval '1 hour'")


def log_in(number: int) -> str:
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client()
    client.force_login(User.objects.create_superuser(f"user-{number}"))
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


def fetch(session: str, seen: str) -> str:
    url = f"http://127.0.0.1:{PORT}/admin/djqueue/overview/?fragment=1&seen={seen}"
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Cookie": session}), timeout=60) as answer:
        return str(answer.read().decode())


def wait_for_server(session: str) -> None:
    for _ in range(600):
        try:
            fetch(session, "")
        except OSError:
            time.sleep(0.1)
        else:
            return
    sys.exit("the server does not answer")


def keep_open(session: str, delay: float, stop: threading.Event, counts: list[int]) -> None:
    """Poll as overview.js does."""
    from djqueue.admin.overview.page import REFRESH

    versions: dict[str, str] = {}
    stop.wait(delay)
    while not stop.is_set():
        seen = ",".join(f"{name}:{version}" for name, version in versions.items())
        html = fetch(session, seen)
        versions |= dict(re.findall(r'<section id="djq-(\w+)" data-version="(\d+)"', html))
        counts.append(len(html))
        stop.wait(REFRESH)


def cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def postgres_cpu() -> float:
    """Return the CPU time of all processes of the server, and of those that have ended."""
    postmaster = int((Path(postgres._servers[0].pgdata) / "postmaster.pid").read_text().split()[0])
    fields = Path(f"/proc/{postmaster}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    ended = (int(fields[13]) + int(fields[14])) / TICKS
    return cpu(postmaster) + ended + sum(cpu(int(pid)) for pid in children)


def measure(server: int, sessions: list[str], options: argparse.Namespace) -> None:
    from djqueue.admin.overview.page import REFRESH

    wait_for_server(sessions[0])
    idle_start, start = postgres_cpu(), time.perf_counter()
    time.sleep(options.seconds)  # as long: autovacuum has a turn every minute
    idle = (postgres_cpu() - idle_start) / (time.perf_counter() - start)
    stop, counts = threading.Event(), []
    people = [
        threading.Thread(target=keep_open, args=(session, number * REFRESH / len(sessions), stop, counts))
        for number, session in enumerate(sessions)
    ]
    before, start = (cpu(server), postgres_cpu()), time.perf_counter()
    for person in people:
        person.start()
    time.sleep(options.seconds)
    took = time.perf_counter() - start
    after = cpu(server), postgres_cpu()
    stop.set()
    for person in people:
        person.join()
    web = 100 * (after[0] - before[0]) / took
    database = 100 * max(0.0, (after[1] - before[1]) / took - idle)
    print(f"{len(sessions)} people, a poll every {REFRESH} s each, {options.rows} rows per table, {took:.0f} s")
    print(f"{len(counts)} polls, {sum(counts) / max(1, len(counts)) / 1000:.1f} kB on average")
    print(
        f"server {web:.2f}%, PostgreSQL {database:.2f}% (idle: {100 * idle:.2f}%), sum {web + database:.2f}% of a core"
    )
    if web + database > options.most:
        sys.exit(f"more than {options.most}% of a core")


if __name__ == "__main__":
    main()
