"""Compare how fast a worker drains a queue with statistics from empty tables and with fresh statistics.

python -m benchmarks.statistics [--jobs 20000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import time
from statistics import median

from .database import set_up
from .worker import is_busy, run
from .workers import worker

TABLES = "djqueue_job, djqueue_donejob"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    set_up()
    # Otherwise autovacuum may analyse the tables in the middle of a round.
    for table in TABLES.split(", "):
        run(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    with worker("--threads", "4", "-v", "1"):
        rates: dict[str, list[float]] = {"fresh": [], "empty": []}
        for number in range(options.rounds):
            for kind in sorted(rates, reverse=bool(number % 2)):
                rates[kind].append(drain(options.jobs, analyse_when=kind))
                print(f"{kind:<6} {rates[kind][-1]:>8.0f} jobs/s", flush=True)
    ratios = [empty / fresh for empty, fresh in zip(rates["empty"], rates["fresh"], strict=True)]
    print(f"ratio {median(ratios):.2f} of the rate with fresh statistics (median of the pairs)")


def drain(jobs: int, analyse_when: str) -> float:
    import djqueue

    from .tasks import nothing

    queue = djqueue.Queue("default")
    queue.pause()
    run(f"TRUNCATE {TABLES}")
    if analyse_when == "empty":
        run(f"VACUUM ANALYZE {TABLES}")
    nothing.enqueue_many(djqueue.call(n) for n in range(jobs))
    if analyse_when == "fresh":
        run(f"VACUUM ANALYZE {TABLES}")
    time.sleep(0.5)
    start = time.perf_counter()
    queue.resume()
    while is_busy():
        time.sleep(0.02)
    return jobs / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
