"""huey with Redis: its consumer with four threads, and no results."""

from __future__ import annotations

import os
import sys

import huey

from .ledger import record
from .protocol import TEXT, System, main

URL = os.environ["COMPARE_REDIS"]
MODULE = "benchmarks.compare.systems.huey"

app = huey.RedisHuey("compare", url=URL, results=False)


@app.task(name="nothing")
def nothing(number: int, text: str) -> None:
    record(number)


class Huey(System):
    def prepare(self) -> None: ...

    def clear(self) -> None:
        app.storage.conn.flushdb()

    def enqueue(self, number: int, task: str = "nothing") -> None:
        nothing(number, TEXT)

    def enqueue_bulk(self, first: int, count: int, task: str = "nothing", queues: int = 1, delay: float = 0) -> None:
        for number in range(first, first + count):
            nothing(number, TEXT)

    def unsettled(self) -> int:
        return int(app.pending_count())

    def work(self, processes: int = 1, threads: int = 4) -> None:
        options = ["--workers", str(threads), "--worker-type", "thread", "--quiet"]
        os.execv(sys.executable, [sys.executable, "-m", "huey.bin.huey_consumer", f"{MODULE}.app", *options])


if __name__ == "__main__":
    from benchmarks.compare.systems import huey as module  # the name of a task contains that of its module

    main(module.Huey)
