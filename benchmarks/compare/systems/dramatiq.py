"""dramatiq with Redis: one process with eight threads per worker."""

from __future__ import annotations

import os
import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from .ledger import record
from .protocol import TEXT, System, main

URL = os.environ["COMPARE_REDIS"]
MODULE = "benchmarks.compare.systems.dramatiq"

broker = RedisBroker(url=URL)
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="nothing")
def nothing(number: int, text: str) -> None:
    record(number)


class Dramatiq(System):
    def prepare(self) -> None: ...

    def clear(self) -> None:
        broker.client.flushdb()

    def enqueue(self, number: int, task: str = "nothing") -> None:
        nothing.send(number, TEXT)

    def enqueue_bulk(self, first: int, count: int, task: str = "nothing", queues: int = 1, delay: float = 0) -> None:
        for number in range(first, first + count):
            nothing.send(number, TEXT)

    def unsettled(self) -> int:
        return int(broker.client.hlen("dramatiq:default.msgs"))

    def work(self, processes: int = 1, threads: int = 8) -> None:
        options = ["--processes", str(processes), "--threads", str(threads)]
        os.execv(sys.executable, [sys.executable, "-m", "dramatiq", MODULE, *options])


if __name__ == "__main__":
    main(Dramatiq)
