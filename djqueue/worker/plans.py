"""Plan the statements of a worker once, instead of each time: claiming and settling take longer to plan than to run.

A plan is kept as long as its connection, and the job table may be empty when it is made and have a million rows a
moment later. So the planner must not choose what is good for an empty table. tests/worker/test_plans.py attacks this.

A pooler may send the statements of one client to several servers, of which only one has the prepared statement. Behind
one, statements are not prepared.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from djqueue.conf import config

# Without the first two, the planner would read a table that is empty now from end to end, and sort what it finds. They
# raise its estimates so much that it would compile every plan, which takes seconds. Without the last, it would compare
# estimates and plan a claim each time, which takes longer than to run it for a single job.
FOR_GROWING_TABLES = (
    "SET enable_seqscan = off; SET enable_sort = off; SET jit = off; SET plan_cache_mode = force_generic_plan"
)


def keep_plans() -> None:
    """Prepare the statements that this thread sends to the queue's database; only for threads of djqueue itself.

    A project that has set `prepare_threshold` knows what its server can do: its setting is kept.
    """
    connection = connections[config().database]
    if not _is_psycopg(connection) or "prepare_threshold" in connection.settings_dict["OPTIONS"]:
        return
    settings = deepcopy(connection.settings_dict)
    settings["OPTIONS"]["server_side_binding"] = True
    settings["OPTIONS"].pop("pool", None)  # others would get this connection
    connection.close()
    connections[connection.alias] = _preparing(type(connection))(settings, connection.alias)  # type: ignore[arg-type]


def _is_psycopg(connection: BaseDatabaseWrapper) -> bool:
    if connection.vendor != "postgresql":
        return False
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    return bool(is_psycopg3)


@cache
def _preparing(kind: type[BaseDatabaseWrapper]) -> type[BaseDatabaseWrapper]:
    """Return a subclass whose connections prepare every statement, if they lead to one server."""

    class Preparing(kind):  # type: ignore[valid-type, misc]
        def init_connection_state(self) -> None:
            super().init_connection_state()
            driver = self.connection
            [server] = driver.execute("SELECT pg_backend_pid()").fetchone()
            if server == driver.info.backend_pid:  # a pooler makes up its own
                driver.execute(FOR_GROWING_TABLES)
                driver.prepare_threshold = 0
            if not self.get_autocommit():
                driver.commit()

    return Preparing
