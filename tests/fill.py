"""Many rows at once, made by PostgreSQL itself."""

from __future__ import annotations

from django.db import connections

from djqueue.conf import config


def fill(table: str, count: int, **columns: str) -> None:
    """Insert rows on the server, by SQL expressions over the row number n."""
    values = {
        "id": "gen_random_uuid()",
        "task": "'tests.app.tasks.add'",
        "queue": "'default'",
        "priority": "1000",
        "args": "'[1]'",
        "kwargs": "'{}'",
        "headers": "'{}'",
        "max_attempts": "3",
        "run_at": "now()",
        "enqueued_at": "now() + n * interval '1 microsecond'",
    } | columns
    with connections[config().database].cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(values)}) "
            f"SELECT {', '.join(values.values())} FROM generate_series(1, {count}) AS n"
        )
