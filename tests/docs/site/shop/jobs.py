"""Hooks around jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from djqueue.current import CurrentJob

from .tenants import current_tenant, use_tenant


def tenant_header(task_name: str) -> dict[str, str | None]:
    return {"tenant": current_tenant()}


@contextmanager
def tenant(job: CurrentJob) -> Iterator[None]:
    with use_tenant(job.headers.get("tenant")):
        yield
