"""Renew leases."""

from __future__ import annotations

from .pieces import given

RENEW_COLUMNS = [
    ("id", "uuid"),
    ("token", "uuid"),
    ("lease", "float8"),
    ("started", "bool"),
    ("progress", "text"),
]


def renew_sql(lock: str, answer: str) -> str:
    """Touches no indexed column, so that the new version of the row stays on its page."""
    return f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM {given(RENEW_COLUMNS, "g")}
    ), held AS MATERIALIZED (
        SELECT g.* FROM given g JOIN djqueue_job j ON j.id = g.id AND j.token = g.token
        ORDER BY g.id
        FOR UPDATE OF j {lock}
    ), renewed AS (
        UPDATE djqueue_job j SET
            lease_expires_at = COALESCE(statement_timestamp() + h.lease * interval '1 second', j.lease_expires_at),
            started = COALESCE(h.started, j.started),
            progress = COALESCE(h.progress, j.progress)
        FROM held h WHERE j.id = h.id
        RETURNING j.id, j.lease_expires_at, j.cancel_requested
    )
    SELECT id, r.lease_expires_at, r.cancel_requested FROM {answer}
    """


RENEW = renew_sql("", "renewed r")
# A row that is ours, but that somebody has locked just now, comes back without an expiry.
RENEW_SKIPPING = renew_sql(
    "SKIP LOCKED",
    """(SELECT j.id FROM given g JOIN djqueue_job j ON j.id = g.id AND j.token = g.token) AS ours
        LEFT JOIN renewed r USING (id)""",
)
