from __future__ import annotations

import time

import djqueue
from benchmarks.compare.systems.ledger import record


@djqueue.task
def nothing(number: int, text: str) -> None:
    record(number)


@djqueue.task
async def coroutine(number: int, text: str) -> None:
    record(number)


@djqueue.task
def nap(number: int, text: str) -> None:
    record(number)
    time.sleep(0.01)
