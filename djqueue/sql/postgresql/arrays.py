"""Pieces of SQL that several statements share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from djqueue.core import channels

# A notification is sent by the statement that makes it true, and arrives with its commit or not at all; in a rush, a
# request follows the commit instead (see rushes). It is part of what the statement returns: a CTE that nothing refers
# to would not run.
WAKE_FOR_PENDING = f", pg_notify('{channels.PENDING}', j.queue)"
WAKE_FOR_BLOCKED = f", CASE WHEN j.limit_key IS NOT NULL THEN pg_notify('{channels.BLOCKED}', j.limit_key) END"
# For a dedup hit too: a worker that skipped the row while the hit had it locked sleeps until it is notified.
WAKE_FOR_WAITING = f""", CASE j.status
    WHEN 'pending' THEN pg_notify('{channels.PENDING}', j.queue)
    WHEN 'blocked' THEN pg_notify('{channels.BLOCKED}', j.limit_key)
    WHEN 'scheduled' THEN pg_notify('{channels.SCHEDULED}', '') END"""


# Conditions that always hold, between bounds that the planner does not know. Without them it expects a walk along an
# index to touch the share of the table that an earlier ANALYZE saw, and where a later one saw no rows at all, it would
# rather collect and sort all rows than take the first ones in order.
ANY_ID = """id BETWEEN (SELECT '00000000-0000-0000-0000-000000000000'::uuid)
                AND (SELECT 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)"""
# The same for djqueue_job_claim, in columns that lead no other index.
ANY_PLACE = """priority BETWEEN (SELECT '-9223372036854775808'::int8) AND (SELECT '9223372036854775807'::int8)
                AND enqueued_at BETWEEN (SELECT '-infinity'::timestamptz) AND (SELECT 'infinity'::timestamptz)"""


def status_at(run_at: str, limit_key: str) -> str:
    """Return the status of a job that waits, as SQL."""
    return f"""CASE WHEN {run_at} > statement_timestamp() THEN 'scheduled'
        WHEN {limit_key} IS NULL THEN 'pending' ELSE 'blocked' END"""


def listed(rows: str) -> str:
    """Find the rows of `j` that a CTE lists, by primary key whatever the statistics say.

    The job table is often analysed while it is empty, and full a moment later. The planner then prefers a join that
    walks through the whole table. An array can only be looked up. What else the CTE knows of a row may be joined on
    top of that. A subquery in its place (`IN`) would be run again for a row that another transaction has changed.
    """
    return f"j.id = ANY(ARRAY(SELECT id FROM {rows}))"


def newest(kept: str, added: str, limit: int, end: str) -> str:
    """Return the SQL that appends to a list in a text and drops the oldest parts; each ends with the same character."""
    tail = f"right({kept} || {added}, {limit + 1})"
    return f"""CASE WHEN length({kept}) + length({added}) > {limit}
        THEN substr({tail}, strpos({tail}, {end}) + 1) ELSE {kept} || {added} END"""


def given(columns: Sequence[tuple[str, str]], name: str) -> str:
    """Return rows from one array per column, so that the text of the statement does not depend on their number."""
    arrays = ", ".join(f"%s::{kind}[]" for _, kind in columns)
    return f"unnest({arrays}) AS {name}({', '.join(column for column, _ in columns)})"


def locked(columns: str, *, wait: bool, guard: str = "") -> str:
    """Join the rows of the CTE `given`, as `g`, to their jobs, as `j`, and lock these in the order of their ids.

    One look-up per row: the planner cannot turn a subquery that locks into another join, nor assume that it returns
    less than a row, which would make it choose nested loops for what follows.
    """
    return f"""(SELECT * FROM given ORDER BY id) g CROSS JOIN LATERAL (
            SELECT {columns} FROM djqueue_job
            WHERE id = g.id AND token = g.token {guard}
            FOR UPDATE {"" if wait else "SKIP LOCKED"}
        ) j"""


def given_with_constants(columns: Sequence[tuple[str, str]], varying: Sequence[str], name: str) -> str:
    """Return the same for the columns that vary. Those in which all rows agree are sent once. See columns_of."""
    rows = given([column for column in columns if column[0] in varying], "v")
    constants = [(column, kind) for column, kind in columns if column not in varying]
    once = ", ".join(f"%s::{kind} AS {column}" for column, kind in constants)
    return f"(SELECT * FROM {rows} CROSS JOIN (SELECT {once}) AS c) AS {name}"


def columns_of(
    items: Sequence[tuple[Any, ...]], columns: Sequence[tuple[str, str]]
) -> tuple[tuple[str, ...], list[Any]]:
    """Return the columns in which the items differ (and their ids), and the parameters.

    These are an array for each column in which they differ, then the values in which they agree.
    """
    varying, arrays, constants = [], [], []
    for (name, kind), values in zip(columns, zip(*items, strict=True), strict=True):
        if name == "id" or values.count(values[0]) < len(values):
            varying.append(name)
            arrays.append(_array(values, kind))
        else:
            constants.append(values[0])
    return tuple(varying), arrays + constants


def uuids(values: Iterable[UUID]) -> str:
    """Return the text of an array, which the driver would take longer to write."""
    return "{" + ",".join([value.hex for value in values]) + "}"


def _array(values: tuple[Any, ...], kind: str) -> Any:
    """Return an array as the driver accepts it; of plain kinds its text, which the driver takes longer to write."""
    match kind:
        case "uuid":
            return uuids(values)
        case "float8" | "bool":
            return "{" + ",".join(map(repr, values)).replace("None", "NULL") + "}"
    return list(values)


def upsert(columns: Sequence[str]) -> str:
    return ", ".join(f"{name} = EXCLUDED.{name}" for name in columns if name != "id")
