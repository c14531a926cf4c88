"""How soon does an idle worker start a job? From just before the enqueue to the first line of the task, with the
wake-up and, in the same run, without it; and how late a delayed job starts.

    python -m benchmarks.pickup [--rounds 300]
"""

from __future__ import annotations

import argparse
import os
import random
import time
from typing import TYPE_CHECKING

from .database import set_up
from .workers import worker

if TYPE_CHECKING:
    from djqueue import JobHandle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    set_up()
    with worker():
        show("with the wake-up", [pick_up() for _ in range(options.rounds)])
        show("a delay of 1 s, late by", [late() for _ in range(max(10, options.rounds // 10))])
    with worker(NOTIFY=False):
        show("by polling alone", [pick_up() for _ in range(max(10, options.rounds // 10))])


def pick_up() -> float:
    from .tasks import clock

    time.sleep(random.uniform(0.02, 0.1))  # it is idle again
    start = time.monotonic()
    return first_line_of(clock.enqueue()) - start


def late() -> float:
    from .tasks import clock

    due = time.monotonic() + 1
    return first_line_of(clock.using(delay=1).enqueue()) - due


def first_line_of(handle: JobHandle) -> float:
    """Polled, since a worker without notifications does not tell of its ends either."""
    while (found := handle.job()) is None or found.status != "done":
        time.sleep(0.01)
    return float(found.result)


def show(name: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    median, late = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    print(
        f"{name:<24} median {median * 1000:7.1f} ms   p99 {late * 1000:7.1f} ms   of {len(ordered)}, "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
