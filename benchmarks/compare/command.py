"""`python -m benchmarks compare`: the options, the systems that can be measured here, and the report."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psycopg

import benchmarks.compare

from . import catalog, environments, report, servers, targets
from .database import Database
from .run import QUICK, Run, Sizes
from .subject import FailedError, Subject
from .workloads import QUICK as QUICK_WORKLOADS
from .workloads import WORKLOADS

PEERS = {name: entry for name, entry in catalog.ENTRIES.items() if name not in catalog.OWN}
PLOT = Path(__file__).with_name("plot.py")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks compare",
        description=benchmarks.compare.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--quick",
        action="store_true",
        help="under three minutes: fewer jobs, the main figures, djqueue, the limit, pgqueuer",
    )
    add("--only", type=names(WORKLOADS), metavar="A,B", help=f"workloads, of: {', '.join(WORKLOADS)}")
    add("--peers", type=names(PEERS), metavar="A,B", help=f"beside djqueue and the limit, of: {', '.join(PEERS)}")
    add("--systems", type=names(catalog.ENTRIES), metavar="A,B", help="these only; djqueue and the limit must be named")
    add("--repetitions", type=int, help="how often each figure is measured")
    add("--jobs", type=int, help="how many jobs djqueue drains; other sizes follow")
    add("--database-url", help="a PostgreSQL whose user may create databases; by default, one is started")
    add("--redis-url", help="a Redis database, which is emptied; by default, a server is started")
    add("--out", type=Path, default=Path("benchmark-results"), help="the folder of the tables, the plot and all values")
    add("--no-plot", dest="plot", action="store_false", help="do not draw a plot, which needs an environment")
    add("--check", action="store_true", help="exit with code 1 if a target is missed")
    return parser.parse_args(arguments)


def names(known: dict[str, object]) -> object:
    def split(text: str) -> list[str]:
        chosen = [name.strip() for name in text.split(",") if name.strip()]
        if unknown := [name for name in chosen if name not in known]:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}. Known: {', '.join(known)}")
        return chosen

    return split


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers and databases are removed
    options.out.mkdir(parents=True, exist_ok=True)
    server = options.database_url or servers.start_postgresql()
    run = Run({}, sizes(options))
    with ExitStack() as stack:
        start_all(run, options, server, stack)
        for name in options.only or (QUICK_WORKLOADS if options.quick else WORKLOADS):
            WORKLOADS[name](run)
            run.results.write(options.out / "compare.json")
    write(run, options, server)
    reached = targets.show(run.results)
    run.say(f"written to {options.out}")
    for failure in run.results.failures:
        print(f"FAILED: {failure.splitlines()[0]}", file=sys.stderr)
    return 1 if run.results.failures or (options.check and not reached) else 0


def start_all(run: Run, options: argparse.Namespace, server: str, stack: ExitStack) -> None:
    """Start the systems that can be measured here, and note why others cannot."""
    names = options.systems or [*catalog.OWN, *(options.peers or (["pgqueuer"] if options.quick else PEERS))]
    entries = [catalog.ENTRIES[name] for name in names]
    needed = any(entry.needs == "redis" for entry in entries)
    redis = options.redis_url or (servers.start_redis() if needed else None)
    for entry in entries:
        try:
            run.subjects[entry.name] = start(entry, server, redis)
            stack.callback(run.subjects[entry.name].close)
        except environments.UnavailableError as error:
            run.results.skipped[entry.name] = str(error)
            run.say(f"{entry.name} is skipped: {error}")
        except FailedError as error:
            run.results.failures.append(f"{entry.name}: {error}")
            run.say(f"FAILED: {entry.name}: {error}")


def start(entry: catalog.Entry, server: str, redis: str | None) -> Subject:
    """Start a system; raise UnavailableError if something that it needs is missing."""
    if entry.needs == "redis":
        if redis is None:
            raise environments.UnavailableError("no redis-server is installed, and --redis-url was not given")
        return Subject(entry, environments.python_of(entry), None, {"COMPARE_REDIS": redis})
    database = Database(server, entry.name)
    return Subject(entry, environments.python_of(entry), database, {"COMPARE_DATABASE": database.url})


def write(run: Run, options: argparse.Namespace, server: str) -> None:
    """Write and print the tables, and draw the plot."""
    with psycopg.connect(server) as connection:
        version = connection.info.server_version // 10_000
    text = report.markdown(run.results, f"PostgreSQL {version}", run.load)
    (options.out / "compare.md").write_text(f"{text}\n## Targets\n\n{report.target_table(run.results)}\n")
    if options.plot:
        draw(run, options.out)
    print(f"\n{text}")


def draw(run: Run, folder: Path) -> None:
    """Draw the plot in the environment that has matplotlib."""
    try:
        python = environments.environment("plot", PLOT.with_suffix(".txt"))
    except environments.UnavailableError as error:
        run.say(f"no plot: {error}")
        return
    subprocess.run([python, PLOT, folder / "compare.json", folder / "compare.png"], check=True)


def sizes(options: argparse.Namespace) -> Sizes:
    chosen = QUICK if options.quick else Sizes()
    if options.jobs:
        chosen = chosen.scaled(options.jobs / chosen.drain)
    return replace(chosen, repetitions=options.repetitions or chosen.repetitions)
