"""Measure what hooks cost: the preparation of a job, and the call of a task, without hooks and with one.

python -m benchmarks.hooks [--rounds 20000]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .database import set_up


@contextmanager
def around(job: Any) -> Iterator[None]:
    yield


class both:  # noqa: N801
    """A hook that a coroutine enters without a thread."""

    def __init__(self, job: Any) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *raised: object) -> None: ...
    async def __aenter__(self) -> None: ...
    async def __aexit__(self, *raised: object) -> None: ...


def headers(task_name: str) -> dict[str, Any]:
    return {"request_id": "4f1a"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20_000)
    rounds = parser.parse_args().rounds
    set_up()
    from django.test import override_settings

    import djqueue
    from djqueue.core.options import NO_CALL_OPTIONS
    from djqueue.lifecycle.enqueue import prepare
    from djqueue.worker.process import executor
    from djqueue.worker.process.in_hand import Holding, Kind

    @djqueue.task(name="bench.nothing")
    def nothing(n: int) -> None: ...

    @djqueue.task(name="bench.anothing")
    async def anothing(n: int) -> None: ...

    nothing.enqueue(1)
    [job] = djqueue.Queue("default").claim()
    holding, coroutine = Holding(job, Kind(nothing.func)), Holding(job, Kind(anothing.func, coroutine=True))

    def run_plain() -> None:
        executor.call(holding)

    async def run_coroutines(count: int) -> None:
        for _ in range(count):
            await executor.aexecute(coroutine, None)

    for name, given in {"without hooks": [], "with one hook": ["benchmarks.hooks.headers"]}.items():
        with override_settings(DJQUEUE={"HEADERS": given} if given else {}):
            best = timed(rounds, lambda: prepare("bench.nothing", [1], {}, NO_CALL_OPTIONS))
        print(f"prepare a job, {name:<38} {best:7.2f} µs")
    hooks = {"without hooks": [], "with one plain hook": ["around"], "with one hook of both kinds": ["both"]}
    for name, given in hooks.items():
        with override_settings(DJQUEUE={"AROUND": [f"benchmarks.hooks.{one}" for one in given]} if given else {}):
            best = timed(rounds, run_plain)
            print(f"call a plain function, {name:<30} {best:7.2f} µs")
            job.task = "bench.anothing"
            count = rounds // 20
            best = timed(1, lambda: asyncio.run(run_coroutines(count))) / count  # noqa: B023 - called at once
            job.task = "bench.nothing"
            print(f"run a coroutine, {name:<36} {best:7.2f} µs")


def timed(rounds: int, work: Callable[[], object]) -> float:
    """Return the microseconds of one call, the best of five runs."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(rounds):
            work()
        best = min(best, time.perf_counter() - start)
    return best / rounds * 1e6


if __name__ == "__main__":
    main()
