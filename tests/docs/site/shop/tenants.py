"""The tenant of the current request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_tenant: ContextVar[str | None] = ContextVar("tenant", default=None)


def current_tenant() -> str | None:
    return _tenant.get()


@contextmanager
def use_tenant(name: str | None) -> Iterator[None]:
    token = _tenant.set(name)
    try:
        yield
    finally:
        _tenant.reset(token)
