"""Pieces that several statements are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def given_with_constants(columns: Sequence[tuple[str, str]], varying: Sequence[str], name: str) -> str:
    """The same for the columns that vary; those in which all rows agree are sent once. See columns_of."""
    rows = given([column for column in columns if column[0] in varying], "v")
    constants = [(column, kind) for column, kind in columns if column not in varying]
    once = ", ".join(f"%s::{kind} AS {column}" for column, kind in constants)
    return f"(SELECT * FROM {rows} CROSS JOIN (SELECT {once}) AS c) AS {name}"


def columns_of(items: Sequence[Any], columns: Sequence[tuple[str, str]]) -> tuple[tuple[str, ...], list[Any]]:
    """The columns in which the items differ (and their ids), and the parameters: arrays for these, then the others."""
    varying, arrays, constants = [], [], []
    for name, kind in columns:
        values = [getattr(item, name) for item in items]
        if name == "id" or values.count(values[0]) < len(values):
            varying.append(name)
            arrays.append(_array(values, kind))
        else:
            constants.append(values[0])
    return tuple(varying), arrays + constants


def _array(values: list[Any], kind: str) -> Any:
    """An array as the driver takes it; for plain kinds its text, which is much faster to write than by the driver."""
    match kind:
        case "uuid":
            return "{" + ",".join([value.hex for value in values]) + "}"
        case "float8" | "bool":
            return "{" + ",".join(map(repr, values)) + "}"
    return values


def upsert(columns: Sequence[str]) -> str:
    return ", ".join(f"{name} = EXCLUDED.{name}" for name in columns if name != "id")
