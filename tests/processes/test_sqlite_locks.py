"""Transactions of a project on SQLite that read and then write, beside two workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from django.db import connections

from djqueue import call
from djqueue.models import DoneJob, Job
from tests.tools import eventually, rows
from tests.worker import tasks

pytestmark = pytest.mark.databases("sqlite")
TRANSACTIONS = 300
ENOUGH = 10  # failed transactions, after which there is no need for more
MOST = 100_000  # transactions until then: how often they meet a worker depends on the machine


@pytest.mark.parametrize("complete", [True, False])
def test_the_options_of_the_check_prevent_database_is_locked(database, site, complete):
    env = {} if complete else {"DJQUEUE_TEST_PLAIN_SQLITE": "1"}
    counts = (TRANSACTIONS, TRANSACTIONS) if complete else (MOST, ENOUGH)
    project = start_project(str(connections[database].settings_dict["NAME"]), *map(str, counts), env=env)
    tasks.sleep.enqueue_many([call(0.001) for _ in range(40_000)])
    workers = [site.start("--threads", "2", env=env) for _ in range(2)]
    eventually(lambda: rows(DoneJob).count() > 100)
    failed = json.loads(project.communicate("start\n", timeout=240)[0])
    assert rows(Job).exists(), "the workers were busy all the time"
    print(f"failed: {failed} of {counts[0]}")
    for worker in workers:
        assert ("djqueue.W003" in worker.log()) is not complete
        assert "database is locked" not in worker.log().partition("djqueue worker")[2]
        assert worker.stop() == 0
    if complete:
        assert failed == {}
    else:
        assert failed["database is locked"] > ENOUGH


def start_project(*arguments: str, env: dict[str, str]) -> subprocess.Popen[str]:
    """Return a process that is ready to run transactions, and prints how many failed, by their error."""
    project = subprocess.Popen(
        [sys.executable, "-m", "tests.processes.read_then_write", *arguments],
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"} | env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert project.stdout is not None
    assert project.stdout.readline() == "ready\n"
    return project
