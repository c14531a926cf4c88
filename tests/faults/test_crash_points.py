"""A process is killed at each point between the claim and the settlement of its jobs (FAILURES 1)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from djqueue import call
from djqueue.models import DeadJob, DoneJob, Job
from tests.tools import PATIENCE, eventually, rows
from tests.worker.site import Site

from . import tasks
from .crash import POINTS

JOBS = 8
# The most attempts that all jobs together may have lost, and the most runs that may have happened twice: the process
# has two threads. What has not started loses nothing, and what has ended is settled by its outcome.
MOST = {
    "after the claim": (0, 0),
    "before the run": (2, 1),  # the other thread may just run one
    "in the run": (2, 2),
    "after the run": (2, 2),
    "before the flush": (2, 2),
    "after the flush": (2, 2),
}


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_between_claim_and_settlement_loses_no_job(database, site, tmp_path, point):
    crash_at(point, site, tmp_path)


@pytest.mark.faults
@pytest.mark.databases("sqlite", "mysql")
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_loses_no_job_on_other_databases(database, site, tmp_path, point):
    crash_at(point, site, tmp_path)


def crash_at(point: str, site: Site, tmp_path: Path) -> None:
    ledger, crashed = tmp_path / "ledger", tmp_path / "crashed"
    handles = tasks.note_and_die.enqueue_many([call(str(ledger)) for _ in range(JOBS)])
    env = {"DJQUEUE_TEST_IMPORT": "tests.faults.crash", "DJQUEUE_TEST_CRASHED": str(crashed)} | tasks.APP
    worker = site.start("--processes", "1", "--threads", "2", env=env | {"DJQUEUE_TEST_CRASH": point}, BACKOFF_BASE=0)
    eventually(lambda: rows(DoneJob).count() == JOBS, 2 * PATIENCE)  # with two starts
    assert crashed.exists(), "it was not killed"
    worker.wait_for_log("worker process killed by signal 9")
    assert not rows(Job).exists()
    assert not rows(DeadJob).exists()
    runs = Counter(ledger.read_text().split())
    assert set(runs) == {str(handle.id) for handle in handles}, "each job ran"
    spent, repeated = MOST[point]
    assert sum(record.attempts - 1 for record in rows(DoneJob)) <= spent
    assert sum(runs.values()) - JOBS <= repeated
    if point == "in the run":
        assert sum(record.attempts - 1 for record in rows(DoneJob)) >= 1, "the attempt is counted"
    assert worker.stop() == 0
