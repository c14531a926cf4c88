"""Invariant: however many claim and settle at once, each job is settled exactly once and no error is shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from django.db import connections

import djqueue
from djqueue.core.uuid7 import uuid7
from djqueue.models import Job
from tests.drain import drain
from tests.factories import JobFactory
from tests.tools import in_threads, rows


def make_jobs(count: int) -> set[str]:
    made = rows(Job).bulk_create([JobFactory.build(id=uuid7()) for _ in range(count)], batch_size=500)
    return {str(job.pk) for job in made}


def assert_each_was_settled_once(ids: set[str], parts: list[dict]) -> None:
    acked = [job_id for part in parts for job_id in part["acked"]]
    assert len(acked) == len(ids)
    assert set(acked) == ids
    assert sum(part["lost"] for part in parts) == 0
    stats = djqueue.stats("default")
    assert (stats.pending, stats.scheduled, stats.claimed, stats.done, stats.dead) == (0, 0, 0, len(ids), 0)


@pytest.mark.databases("postgresql", "postgresql_repeatable", "mysql")
def test_threads_share_many_jobs(database):
    threads, count = {"postgresql": (8, 10_000), "postgresql_repeatable": (4, 2_000), "mysql": (4, 5_000)}[database]
    ids = make_jobs(count)
    assert_each_was_settled_once(ids, in_threads(threads, drain))


@pytest.mark.databases("sqlite")
def test_processes_share_many_jobs(database):
    ids = make_jobs(5_000)
    name = str(connections[database].settings_dict["NAME"])
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.drain", database, name, str(seed)],
            env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(4)
    ]
    parts = []
    for process in processes:
        out, err = process.communicate(timeout=280)
        assert (process.returncode, err) == (0, "")
        parts.append(json.loads(out))
    assert_each_was_settled_once(ids, parts)
    assert sum(bool(part["acked"]) for part in parts) > 1


def test_maintenance_does_not_disturb_running_workers(database):
    """Reaper, promoter, sweeper and roll-up run flat out while workers drain."""
    ids = make_jobs(400)

    def work(number: int) -> dict:
        if number < 2:
            return drain(number)
        for _ in range(15):
            djqueue.maintenance.reap()
            djqueue.maintenance.promote()
            djqueue.maintenance.sweep_done(older_than=3600)
            djqueue.maintenance.roll_up()
        return {"acked": [], "lost": 0}

    assert_each_was_settled_once(ids, in_threads(4, work))
