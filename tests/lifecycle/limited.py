"""Tasks with limits."""

from __future__ import annotations

import djqueue


@djqueue.task(limit=djqueue.Limit("tenant:{tenant}", concurrency=2))
def sync(tenant: object, page: int = 1) -> None: ...


@djqueue.task(limit=djqueue.Limit("tenant:{tenant}", concurrency=1))
def export(tenant: object) -> None: ...


@djqueue.task(limit=djqueue.Limit("api:{name}", rate="10/s", burst=3))
def call_api(name: str) -> None: ...


@djqueue.task(limit=djqueue.Limit("slow:{name}", rate="1/h", burst=3))
def call_slow_api(name: str) -> None: ...


@djqueue.task
def plain() -> None: ...
