"""Enqueue copies of done and cancelled jobs. The originals stay as history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import TextField
from django.db.models.functions import Cast

from djqueue.core import registry
from djqueue.core.records import Inserted, NewJob
from djqueue.core.uuid7 import uuid7
from djqueue.sql import statements
from djqueue.states import DedupUntil

from .enqueue import insert_many

# What a copy takes along. A run_at that has passed means now; the schedule and its slot stay behind.
COPIED = ("task", "queue", "priority", "max_attempts", "run_at", "dedup_key", "timeout", "lease", "limit_key")
COPIED_JSON = ("args", "kwargs", "headers", "retry")


def enqueue_again_many(ids: Sequence[UUID]) -> dict[UUID, Inserted]:
    """Enqueue a copy of each of these done or cancelled jobs, all or none; return the copies by original id.

    A copy has a new id. If a live job holds its dedup key, no copy is created, and that job is returned.
    """
    from djqueue.models import DoneJob

    as_stored = {f"{name}_text": Cast(name, TextField()) for name in COPIED_JSON}
    rows = DoneJob.objects.using(statements().alias).filter(pk__in=ids).order_by("pk").annotate(**as_stored)
    originals = list(rows.values("pk", *COPIED, *as_stored))
    inserted = insert_many(lambda: map(_copy, originals))
    return {original["pk"]: row for original, row in zip(originals, inserted, strict=True)}


def _copy(original: dict[str, Any]) -> NewJob:
    return NewJob(
        id=uuid7(),
        **{name: original[name] for name in COPIED},
        **{name: original[f"{name}_text"] for name in COPIED_JSON},
        dedup_until=registry.options(original["task"]).dedup_until or DedupUntil.CLAIMED.value,
    )
