"""The limit: a loop by hand with psycopg. It claims 100 jobs, runs them, deletes them; COPY for bulk inserts.

It does less than a queue must: the jobs of a worker that was killed stay claimed for ever, a job that raises stops the
worker, and nothing is known about a job that has finished.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from .database import URL
from .ledger import record
from .protocol import TEXT, System, main, queue_name, text_of

BATCH = 100
TABLE = """
    CREATE TABLE job (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        queue text NOT NULL, task text NOT NULL, args text NOT NULL,
        status text NOT NULL DEFAULT 'pending', run_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX ON job (id) WHERE status = 'pending'
"""
INSERT = "INSERT INTO job (queue, task, args) VALUES (%s, %s, %s) RETURNING pg_notify('job', '')"
CLAIM = """
    WITH picked AS MATERIALIZED (
        SELECT id FROM job WHERE status = 'pending' ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
    ) UPDATE job SET status = 'claimed' FROM picked WHERE job.id = picked.id RETURNING job.id, job.task, job.args
"""
DELETE = "DELETE FROM job WHERE id = ANY(%s)"


def nothing(number: int, text: str) -> None:
    record(number)


def nap(number: int, text: str) -> None:
    record(number)
    time.sleep(0.01)


TASKS = {"nothing": nothing, "nap": nap}


class Limit(System):
    def __init__(self) -> None:
        self.connection = psycopg.connect(URL, autocommit=True)

    def prepare(self) -> None:
        self.connection.execute(TABLE)

    def clear(self) -> None:
        self.connection.execute("TRUNCATE job")

    def enqueue(self, number: int, task: str = "nothing") -> None:
        self.connection.execute(INSERT, ["default", task, json.dumps([number, TEXT])])

    def enqueue_bulk(
        self, first: int, count: int, task: str = "nothing", queues: int = 1, delay: float = 0, size: int = 0
    ) -> None:
        status, text = "scheduled" if delay else "pending", text_of(size)
        lines = (
            f"{queue_name(number, queues)}\t{task}\t{json.dumps([number, text])}\t{status}\n"
            for number in range(first, first + count)
        )
        with self.connection.transaction(), self.connection.cursor() as cursor:
            with cursor.copy("COPY job (queue, task, args, status) FROM STDIN") as copy:
                copy.write("".join(lines))
            cursor.execute("NOTIFY job")

    def unsettled(self) -> int:
        row = self.connection.execute("SELECT count(*) FROM job WHERE status <> 'scheduled'").fetchone()
        assert row is not None
        return int(row[0])

    def work(self, processes: int = 1, threads: int = 1, queues: int = 1) -> None:
        for _ in range(processes - 1):
            if os.fork() == 0:
                self.connection = psycopg.connect(URL, autocommit=True)
                break
        stop = Stop()
        self.connection.execute("LISTEN job")
        while not stop.wanted:
            while not stop.wanted and (rows := self.connection.execute(CLAIM, [BATCH]).fetchall()):
                self.run(rows)
            with stop.at_once():
                for _ in self.connection.notifies(timeout=1, stop_after=1):
                    pass

    def run(self, rows: list[tuple[Any, ...]]) -> None:
        for _, task, args in rows:
            TASKS[task](*json.loads(args))
        self.connection.execute(DELETE, [[row[0] for row in rows]])


class Stop:
    """SIGTERM: exit after the jobs in hand, or at once while there are none."""

    def __init__(self) -> None:
        self.wanted = self.idle = False
        signal.signal(signal.SIGTERM, self.handle)

    def handle(self, *_: object) -> None:
        self.wanted = True
        if self.idle:
            os._exit(0)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        self.idle = True
        if self.wanted:
            os._exit(0)
        yield
        self.idle = False


if __name__ == "__main__":
    main(Limit)
