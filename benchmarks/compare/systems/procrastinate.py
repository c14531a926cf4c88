"""procrastinate: coroutines, with its pool of connections and a hundred jobs at the same time."""

from __future__ import annotations

import os
import sys
from typing import Any

import procrastinate
import psycopg

from .database import URL
from .ledger import record
from .protocol import TEXT, System, main, queue_name

CHUNK = 1_000


Connector = procrastinate.PsycopgConnector if "worker" in sys.argv else procrastinate.SyncPsycopgConnector
app = procrastinate.App(
    connector=Connector(conninfo=URL),
    worker_defaults={"concurrency": 100, "install_signal_handlers": True},
)


@app.task(name="nothing")
async def nothing(number: int, text: str) -> None:
    record(number)


class Procrastinate(System):
    def __init__(self) -> None:
        if "worker" not in sys.argv:
            self.connection = psycopg.connect(URL, autocommit=True)
            app.open()

    def prepare(self) -> None:
        app.schema_manager.apply_schema()

    def clear(self) -> None:
        self.connection.execute("TRUNCATE procrastinate_jobs, procrastinate_events CASCADE")

    def enqueue(self, number: int, task: str = "nothing") -> None:
        nothing.defer(number=number, text=TEXT)

    def enqueue_bulk(self, first: int, count: int, task: str = "nothing", queues: int = 1, delay: float = 0) -> None:
        options: dict[str, Any] = {"schedule_in": {"seconds": delay}} if delay else {}
        for place in range(queues):
            numbers = range(first + place, first + count, queues)
            deferrer = app.configure_task(task, queue=queue_name(place, queues), **options)
            for start in range(0, len(numbers), CHUNK):
                deferrer.batch_defer(*({"number": number, "text": TEXT} for number in numbers[start : start + CHUNK]))

    def unsettled(self) -> int:
        row = self.connection.execute(
            "SELECT count(*) FROM procrastinate_jobs "
            "WHERE status = 'doing' OR status = 'todo' AND (scheduled_at IS NULL OR scheduled_at <= now())"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def work(self, processes: int = 1, queues: int = 1) -> None:
        for _ in range(processes - 1):
            if os.fork() == 0:
                break
        app.run_worker()


if __name__ == "__main__":
    main(Procrastinate)
