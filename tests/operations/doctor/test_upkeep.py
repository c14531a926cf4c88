"""Running jobs, leases, retention and counts."""

from __future__ import annotations

import pytest

from djqueue import maintenance
from djqueue.operations.codes import Code
from djqueue.operations.findings import Severity, Subject
from tests.conftest import PLAIN
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory, KVFactory, ThroughputFactory, ago

from .tools import examined

pytestmark = pytest.mark.databases(*PLAIN)
DAY = 86400


def test_a_job_that_runs_far_longer_than_usual_is_found(database):
    def running(task: str, seconds: float, **more: object):
        return JobFactory(task=task, claimed=True, claimed_at=ago(seconds), lease_expires_at=ago(-30), **more)

    ThroughputFactory(task="usual", run_bucket=8, done=20, run_sum=30)  # 1 to 2.5 s
    stuck = running("usual", 3700)
    running("usual", 20)
    ThroughputFactory(task="slow", run_bucket=14, done=20, run_sum=20000)  # 5 to 30 min
    running("slow", 3700)
    running("new", 3700)
    ThroughputFactory(task="seldom", run_bucket=8, done=4, run_sum=6)
    running("seldom", 3700)
    [finding] = examined(Code.LONG_RUNNING)
    assert (finding.subject, finding.key) == (Subject.JOB, str(stuck.id))
    assert "has been running for 1 h 1 min" in finding.text
    assert finding.text.endswith("It has no timeout.")
    assert finding.remedy.endswith("Give the task a timeout.")


def test_a_timeout_of_the_job_is_mentioned_no_more(database):
    ThroughputFactory(task="usual", run_bucket=8, done=20, run_sum=30)
    JobFactory(task="usual", claimed=True, claimed_at=ago(3700), timeout=9000)
    [finding] = examined(Code.LONG_RUNNING)
    assert "timeout" not in finding.text + finding.remedy


def test_leases_that_nobody_reaps_are_found(database, configure):
    configure(LEASE=20)
    JobFactory(claimed=True, lease_expires_at=ago(30))
    assert examined(Code.LEASES_EXPIRED) == []
    JobFactory(claimed=True, lease_expires_at=ago(100))
    [finding] = examined(Code.LEASES_EXPIRED)
    assert finding.severity == Severity.ERROR
    assert finding.text.startswith("The lease of 1 claimed job has expired, the first 1 min 4")
    maintenance.reap()
    assert examined(Code.LEASES_EXPIRED) == []


def test_rows_that_are_kept_too_long_are_found(database, configure):
    configure(QUEUES={"short": {"keep_done": 3600}, "ever": {"keep_done": None}})
    DoneJobFactory(completed_at=ago(DAY + 1800))
    DoneJobFactory(queue="short", completed_at=ago(7000))
    DoneJobFactory(queue="ever", completed_at=ago(900 * DAY))
    DeadJobFactory(failed_at=ago(7 * DAY + 1800))
    KVFactory(expires_at=ago(1800))
    KVFactory(updated_at=ago(900 * DAY))
    assert examined(Code.RETENTION_LATE) == []
    DoneJobFactory(completed_at=ago(DAY + 7300))
    DoneJobFactory(queue="short", completed_at=ago(11000))
    DeadJobFactory(failed_at=ago(7 * DAY + 7300))
    KVFactory(expires_at=ago(7300))
    found = examined(Code.RETENTION_LATE)
    assert [(finding.subject, finding.key, finding.text.split(" should")[0]) for finding in found] == [
        (Subject.SETTINGS, "KEEP_DONE", "Done jobs of the queue 'default'"),
        (Subject.SETTINGS, "KEEP_DONE", "Done jobs of the queue 'short'"),
        (Subject.SETTINGS, "KEEP_DEAD", "Dead jobs"),
        (Subject.DATABASE, database, "KV entries"),
    ]
    assert "2 h 1 min ago (KEEP_DONE)" in found[0].text
    for sweep in (maintenance.sweep_done, maintenance.sweep_dead, maintenance.sweep_kv):
        sweep()
    assert examined(Code.RETENTION_LATE) == []


def test_counts_that_are_not_merged_are_found(database):
    ThroughputFactory(minute=ago(1800))
    assert examined(Code.COUNTS_NOT_MERGED) == []
    ThroughputFactory(minute=ago(5000))
    [finding] = examined(Code.COUNTS_NOT_MERGED)
    assert "merged 1 h 21 min ago" in finding.text
    maintenance.roll_up()
    assert examined(Code.COUNTS_NOT_MERGED) == []
