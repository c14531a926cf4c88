"""Pieces that several statements are made of."""

from __future__ import annotations

from collections.abc import Sequence

from djqueue import channels

# Notifications belong to the statement that makes them true, and come with its commit or not at all. They stand in what
# it returns: a CTE that nothing refers to would not run.
WAKE_FOR_PENDING = f", pg_notify('{channels.PENDING}', j.queue)"
_WAKE = f"""CASE j.status
    WHEN 'pending' THEN pg_notify('{channels.PENDING}', j.queue) ELSE pg_notify('{channels.SCHEDULED}', '') END"""
WAKE_FOR_WAITING = f", {_WAKE}"
# A dedup hit is no news: only an updated row has an xmax.
WAKE_FOR_NEW = f", CASE WHEN j.xmax = 0 THEN {_WAKE} END"


def given(columns: Sequence[tuple[str, str]], name: str) -> str:
    """Rows from one array per column, so that the statement's text does not depend on their number."""
    arrays = ", ".join(f"%s::{kind}[]" for _, kind in columns)
    return f"unnest({arrays}) AS {name}({', '.join(column for column, _ in columns)})"


def upsert(columns: Sequence[str]) -> str:
    return ", ".join(f"{name} = EXCLUDED.{name}" for name in columns if name != "id")
