"""`python -m benchmarks.cluster`: the options."""

from __future__ import annotations

import argparse
import random
import signal
import sys
from contextlib import ExitStack

import benchmarks.cluster

from .course import Course
from .failover import Failover
from .multi_primary import MultiPrimary

COURSES: dict[str, type[Course]] = {"failover": Failover, "galera": MultiPrimary}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster",
        description=benchmarks.cluster.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(asynchronous=False, switchovers=0)
    subparsers = parser.add_subparsers(dest="course", required=True)
    failover = subparsers.add_parser("failover", help="PostgreSQL under Patroni")
    failover.add_argument("--kills", type=int, default=10, help="how often the primary is killed (default: 10)")
    failover.add_argument("--freezes", type=int, default=1, help="how often it is stopped for a while (default: 1)")
    failover.add_argument("--switchovers", type=int, default=5, help="planned switchovers (default: 5)")
    failover.add_argument("--asynchronous", action="store_true", help="standbys that lag behind by a second")
    galera = subparsers.add_parser("galera", help="MariaDB with Galera")
    galera.add_argument("--kills", type=int, default=1, help="how often a node is killed (default: 1)")
    for one in (failover, galera):
        one.add_argument("--rate", type=float, default=50.0, help="jobs per second (default: 50)")
        one.add_argument("--drain", type=float, default=300.0, help="seconds that the drain may take (default: 300)")
        one.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="the seed of the jobs")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # so that all servers are stopped
    try:
        with ExitStack() as stack:
            return COURSES[options.course](options, stack).run()
    except KeyboardInterrupt:
        print("interrupted: all servers are stopped, and there was no audit", file=sys.stderr)
        return 130
