"""pgqueuer: coroutines on uvloop and asyncpg, as its command line runs them; all tables are logged, as by default."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from .database import URL
from .ledger import record
from .protocol import TEXT, System, main, queue_name

CHUNK = 20_000  # jobs of one statement


def entrypoint(number: int, task: str, queues: int) -> str:
    """A queue of pgqueuer is the name of a function."""
    return task if queues == 1 else queue_name(number, queues)


def payload(number: int) -> bytes:
    return json.dumps([number, TEXT]).encode()


async def nothing(job: Job) -> None:
    record(json.loads(job.payload or b"")[0])


async def nap(job: Job) -> None:
    record(json.loads(job.payload or b"")[0])
    await asyncio.to_thread(time.sleep, 0.01)


class Pgqueuer(System):
    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self.connection = self.wait(asyncpg.connect(URL))
        self.queries = Queries.from_asyncpg_connection(self.connection)

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def prepare(self) -> None:
        self.wait(self.queries.install())

    def clear(self) -> None:
        self.wait(self.connection.execute("TRUNCATE pgqueuer, pgqueuer_log, pgqueuer_statistics"))

    def enqueue(self, number: int, task: str = "nothing") -> None:
        self.wait(self.queries.enqueue(task, payload(number)))

    def enqueue_one_by_one(self, first: int, count: int) -> None:
        async def enqueue() -> None:
            for number in range(first, first + count):
                await self.queries.enqueue("nothing", payload(number))

        self.wait(enqueue())

    def enqueue_bulk(self, first: int, count: int, task: str = "nothing", queues: int = 1, delay: float = 0) -> None:
        after = timedelta(seconds=delay) if delay else None
        for start in range(first, first + count, CHUNK):
            numbers = range(start, min(start + CHUNK, first + count))
            names = [entrypoint(number, task, queues) for number in numbers]
            self.wait(self.queries.enqueue(names, [*map(payload, numbers)], [0] * len(numbers), [after] * len(numbers)))

    def unsettled(self) -> int:
        return int(self.wait(self.connection.fetchval("SELECT count(*) FROM pgqueuer WHERE execute_after <= now()")))

    def work(self, processes: int = 1, threads: int = 1, queues: int = 1, batch: int = 100) -> None:
        self.wait(self.connection.close())
        for _ in range(processes - 1):
            if os.fork() == 0:
                break
        uvloop.run(work(queues, batch))


async def work(queues: int, batch: int) -> None:
    worker = PgQueuer.from_asyncpg_connection(await asyncpg.connect(URL))
    for number in range(queues):
        worker.entrypoint(entrypoint(number, "nothing", queues))(nothing)
    if queues == 1:
        worker.entrypoint("nap")(nap)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.shutdown.set)
    await worker.run(batch_size=batch)


if __name__ == "__main__":
    main(Pgqueuer)
