"""Measure what typed arguments cost jobs that use none: encode and decode plain JSON with and without tags, by turns.

    python -m benchmarks.arguments [--rounds 25]

Times are CPU times, so that other programs on the machine disturb them less.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from statistics import median
from typing import Any
from uuid import uuid4

PLAIN: dict[str, Any] = {
    "one number": [42],
    "an event": [42, "order.created", {"user": 7, "tags": ["a", "b"], "note": "hello world"}],
    "200 rows": [{"id": n, "name": f"name {n}", "ok": True, "price": 1.5} for n in range(200)],
    "prices in $": [{"id": n, "price": f"${n}.00"} for n in range(200)],
}
TYPED = [uuid4(), Decimal("9.90"), datetime.now(UTC), {"until": datetime.now(UTC)}]
ROUND = 0.02  # seconds of CPU time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()

    from djqueue.core import payload

    print(f"{'':<14}{'encode':>24}{'':>10}{'decode':>24}")
    print(f"{'':<14}" + f"{'JSON µs':>12}{'typed µs':>12}{'ratio':>10}" * 2)
    for name, value in PLAIN.items():
        text = payload.encode(value, "args")
        assert payload.encode_typed(value, "args") == text
        encode = compare(lambda: payload.encode(value, ""), lambda: payload.encode_typed(value, ""), options.rounds)  # noqa: B023
        decode = compare(lambda: payload.decode(text), lambda: payload.load(text), options.rounds)  # noqa: B023
        print(
            f"{name:<14}"
            + "".join(f"{plain:>12.2f}{typed:>12.2f}{ratio:>10.2f}" for plain, typed, ratio in (encode, decode))
        )
    text = payload.encode_typed(TYPED, "args")
    encoding = cost(lambda: payload.encode_typed(TYPED, ""), 1000)
    print(f"{'with 4 types':<14}{'':>12}{encoding:>12.2f}{'':>22}{cost(lambda: payload.load(text), 1000):>12.2f}")


def compare(plain: Callable[[], object], typed: Callable[[], object], rounds: int) -> tuple[float, float, float]:
    """Return the microseconds of each, and the median of the ratios of pairs that were measured one after the other."""
    count = max(10, int(ROUND * 1e6 / cost(plain, 100)))
    pairs = []
    for number in range(rounds):
        first, second = (plain, typed) if number % 2 else (typed, plain)
        times = {first: cost(first, count), second: cost(second, count)}
        pairs.append((times[plain], times[typed]))
    return (
        median(one for one, _ in pairs),
        median(other for _, other in pairs),
        median(other / one for one, other in pairs),
    )


def cost(work: Callable[[], object], count: int) -> float:
    """Return the CPU time of one call in microseconds."""
    start = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - start) / count * 1e6


if __name__ == "__main__":
    from django.conf import settings

    settings.configure(USE_TZ=True)
    main()
