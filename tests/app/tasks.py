"""Tasks that the tests enqueue; found by autodiscovery."""

from __future__ import annotations

from decimal import Decimal

import djqueue


@djqueue.task
def add(a: int = 0, b: int = 0) -> int:
    return a + b


@djqueue.task
def subtract(a: int, b: int = 0) -> int:
    return a - b


@djqueue.task
def echo(value: object) -> object:
    return value


@djqueue.task
def repeat(text: str, times: int) -> str:
    return text * times


@djqueue.task(name="shop.charge", queue="money", priority=djqueue.HIGH, max_attempts=7, lease=12)
def charge(order: int) -> None: ...


@djqueue.task(retry=djqueue.NoRetry())
def fragile() -> None: ...


@djqueue.task(retry=djqueue.Fixed(60, jitter=0))
def steady() -> None: ...


@djqueue.task(retry=djqueue.Fixed(0))
def eager_retry() -> None: ...


@djqueue.task
async def later(value: object = None) -> object:
    return value


@djqueue.task(sensitive=["password"])
def log_in(user: str, password: str, *, remember: bool = False) -> None:
    raise ValueError(f"{user} may not come in with {password!r}")


@djqueue.task(sensitive=["card", "more"], retry=djqueue.NoRetry())
def pay(order_id: int, *rest: object, card: object = None, **more: object) -> None:
    raise ValueError(f"{rest} {card} {more}")


def tell(record: djqueue.JobRecord, attempts: int) -> None:
    raise RuntimeError(f"cannot tell of {record.args}")


@djqueue.task(sensitive=["key", "price", "at", "raw", "wait"], retry=djqueue.NoRetry())
def sign(
    order: object,
    key: str = "default-key",
    *,
    price: object = Decimal("1234.50"),
    at: object = None,
    raw: object = None,
    wait: object = None,
) -> None:
    raise ValueError(f"{order} {key} {price!r} {at} {raw!r} {wait}")


@djqueue.task(sensitive=["token"], on_dead=tell)
def refuse(token: str) -> None: ...
