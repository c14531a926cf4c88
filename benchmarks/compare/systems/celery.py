"""celery with Redis: one process per worker, prefetch, and no results."""

from __future__ import annotations

import os
import sys
from typing import Any

import celery
import redis

from .ledger import record
from .protocol import TEXT, System, main, queue_name

URL = os.environ["COMPARE_REDIS"]
MODULE = "benchmarks.compare.systems.celery"

app = celery.Celery("compare", broker=URL)
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=64,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


@app.task(name="nothing")
def nothing(number: int, text: str) -> None:
    record(number)


class Celery(System):
    def __init__(self) -> None:
        self.redis = redis.Redis.from_url(URL)

    def prepare(self) -> None: ...

    def clear(self) -> None:
        self.redis.flushdb()

    def enqueue(self, number: int, task: str = "nothing") -> None:
        nothing.delay(number, TEXT)

    def enqueue_bulk(self, first: int, count: int, task: str = "nothing", queues: int = 1, delay: float = 0) -> None:
        options: dict[str, Any] = {"countdown": delay} if delay else {}
        with app.producer_pool.acquire(block=True) as producer:
            for number in range(first, first + count):
                queue = queue_name(number, queues) if queues > 1 else None
                nothing.apply_async((number, TEXT), producer=producer, queue=queue, **options)

    def unsettled(self) -> int:
        return int(self.redis.llen("celery")) + int(self.redis.hlen("unacked"))

    def work(self, processes: int = 1, queues: int = 1) -> None:
        options = ["--pool", "prefork", "--concurrency", str(processes), "--loglevel", "WARNING"]
        options += ["--without-gossip", "--without-mingle", "--hostname", f"{os.getpid()}@%h"]
        os.execv(sys.executable, [sys.executable, "-m", "celery", "-A", MODULE, "worker", *options])


if __name__ == "__main__":
    main(Celery)
