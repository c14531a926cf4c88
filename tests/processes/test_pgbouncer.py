"""A real worker behind a PgBouncer in transaction mode, where no notification arrives."""

from __future__ import annotations

import pytest
from django.db import connections

import djqueue
from djqueue.models import Job
from tests import pgbouncer
from tests.tools import eventually, rows
from tests.worker import tasks

pytestmark = [
    pytest.mark.databases("postgresql"),
    pytest.mark.skipif(
        pgbouncer.PROGRAM is None, reason="install pgbouncer, for example with apt-get install pgbouncer"
    ),
]


def test_a_worker_behind_a_pooler_polls_and_runs_jobs_of_every_kind(database, site):
    user = connections[database].get_connection_params().get("user", "postgres")
    with pgbouncer.pgbouncer(database) as pooled:
        url = f"postgres://{user}@/postgres?host={pooled['HOST']}&port={pooled['PORT']}"
        worker = site.start_ready("--threads", "2", env={"DATABASE_URL": url}, POLL_INTERVAL=0.3, BACKOFF_BASE=0.1)
        worker.wait_for_log("LISTEN_DATABASE")
        handles = [
            *tasks.double.enqueue_many([djqueue.call(n) for n in range(200)]),
            *tasks.double_limited.enqueue_many([djqueue.call(n) for n in range(10)]),
            tasks.double.using(delay=0.5, dedup_key="once").enqueue(1),
            tasks.adouble.enqueue(1),
            tasks.fail_once.enqueue(1),
        ]
        running = tasks.work_in_steps.enqueue(100_000, 0.01)
        eventually(lambda: worker.started([running]))
        running.cancel()
        eventually(lambda: not rows(Job).exists())
        assert {handle.status() for handle in handles} == {"done"}
        assert running.status() == "cancelled"
        assert worker.stop() == 0
