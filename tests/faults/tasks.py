"""Tasks of the fault tests; a worker imports them with DJQUEUE_TEST_APP=tests.faults."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from django.db import connections

import djqueue
from djqueue import kv
from djqueue.conf import config

APP = {"DJQUEUE_TEST_APP": "tests.faults"}


def hang_once() -> None:
    """Hang in the first process that is forked after this import."""
    with suppress(FileExistsError):
        os.close(os.open(os.environ["DJQUEUE_TEST_HANG_AFTER_FORK"], os.O_CREAT | os.O_EXCL))
        time.sleep(600)


if "DJQUEUE_TEST_HANG_AFTER_FORK" in os.environ:
    os.register_at_fork(after_in_child=hang_once)
if "DJQUEUE_TEST_QUERY_AT_IMPORT" in os.environ:
    kv.get("nothing")


@djqueue.task
def clock() -> float:
    return time.time()


@djqueue.task(retry=djqueue.Fixed(3))
def fail_once() -> str:
    if djqueue.current_job().attempt == 1:
        raise ValueError("the first attempt fails")
    return "done"


@djqueue.task
def retry_in_half_an_hour() -> None:
    raise djqueue.Retry(delay=1800)


@djqueue.task
def backend_of_parent_and_child() -> list[list[int]]:
    """Fork while connections are open, and return the backends on which parent and child query afterwards, twice."""
    kv.get("nothing")
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, f"{backend()} {backend()}".encode())
        return []
    parent = [backend()]
    os.close(writing)
    with open(reading) as file:
        child = [int(word) for word in file.read().split()]
    return [[*parent, backend()], child]


def backend() -> int:
    with connections[config().database].cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


@djqueue.task(retry=djqueue.Fixed(0))
def note_and_die(path: str) -> int:
    """Note the run, and in the first attempt kill the process where DJQUEUE_TEST_CRASH says "in the run"."""
    from .crash import crash

    with open(path, "a") as file:
        file.write(f"{djqueue.current_job().id}\n")
    crash("in the run")
    return djqueue.current_job().attempt
