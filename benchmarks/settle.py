"""Measure the statement that acknowledges a group of jobs beside the one that settles any group, by turns.

python -m benchmarks.settle [--jobs 20000] [--group 250]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

from .database import set_up

if TYPE_CHECKING:
    from djqueue.core.records import Settlement


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--group", type=int, default=250)
    options = parser.parse_args()
    set_up()
    import djqueue
    from djqueue.lifecycle import settle
    from djqueue.lifecycle.outcome import decide
    from djqueue.sql import statements

    from .tasks import nothing

    ways: dict[str, Callable[[list[Settlement]], object]] = {
        "settle": lambda items: statements().settle([decide(item) for item in items], wait=False),
        "ack": lambda items: statements().ack(items),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    nothing.enqueue_many(djqueue.call(n) for n in range(options.jobs))
    turns = options.jobs // options.group
    for turn in range(turns):
        items = [settle.ack(job) for job in djqueue.Queue("default").claim(options.group)]
        way = list(ways)[turn % 2]
        start = time.perf_counter()
        ways[way](items)
        seconds[way].append((time.perf_counter() - start) / len(items))
    done = djqueue.stats("default").done
    assert done == turns * options.group, f"{done} jobs are done"
    for way, found in seconds.items():
        print(f"{way:<8} {median(found) * 1e6:6.1f} µs per job in groups of {options.group}")
    print(f"ratio {median(seconds['ack']) / median(seconds['settle']):.2f}")


if __name__ == "__main__":
    main()
