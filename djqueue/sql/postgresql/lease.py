"""Renew leases."""

from __future__ import annotations

from djqueue.core.records import Renew
from djqueue.sql.columns import postgresql_types

from .arrays import given, listed, locked

RENEW_COLUMNS = postgresql_types(Renew)


def renew_sql(*, wait: bool, answer: str, token: str = "r.token") -> str:  # noqa: S107 - a column
    """Return the statement. It writes no indexed column, so that the new version of the row stays on its page."""
    return f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM {given(RENEW_COLUMNS, "g")}
    ), held AS MATERIALIZED (
        SELECT g.* FROM {locked("id", wait=wait)}
    ), renewed AS (
        UPDATE djqueue_job j SET
            lease_expires_at = COALESCE(statement_timestamp() + h.lease * interval '1 second', j.lease_expires_at),
            started = COALESCE(h.started, j.started),
            progress = COALESCE(h.progress, j.progress)
        FROM held h WHERE j.id = h.id AND {listed("held")}
        RETURNING j.id, j.token, j.lease_expires_at, j.cancel_requested
    )
    SELECT id, {token}, r.lease_expires_at, r.cancel_requested FROM {answer}
    """


RENEW = renew_sql(wait=True, answer="renewed r")
# A row that carries its token, but is locked by another transaction, is returned without an expiry.
RENEW_SKIPPING = renew_sql(
    wait=False,
    token="ours.token",  # noqa: S106 - a column
    answer=f"""(SELECT j.id, j.token FROM given g JOIN djqueue_job j ON j.id = g.id AND j.token = g.token
         WHERE {listed("given")}) AS ours
        LEFT JOIN renewed r USING (id)""",
)
