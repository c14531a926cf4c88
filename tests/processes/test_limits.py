"""Limits while workers and supervisors are killed: never too many at once, and no permit is lost."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import djqueue
from djqueue import schedules
from djqueue.models import DeadJob, DoneJob, Job
from djqueue.sql import statements
from tests.tools import eventually, rows
from tests.worker import tasks
from tests.worker.site import constants

LONG = 600  # seconds: longer than any test
KEYS = 20
LIMIT = 2  # of `tasks.noted`
SECONDS = float(os.environ.get("DJQUEUE_TEST_KILLS", "15"))
OPTIONS = {"LEASE": 10, "BACKOFF_BASE": 0.1, "BACKOFF_JITTER": 0, "REAPER_INTERVAL": 1}


def most_at_once(ledger: Path, deaths: dict[int, float]) -> dict[str, int]:
    """Return how many runs of each key there were at once. A run without an end ended with its process."""
    changes: dict[str, list[tuple[float, int]]] = defaultdict(list)
    ends: dict[str, float] = {}
    starts = []
    for line in ledger.read_text().splitlines():
        event, run, key, pid, at = line.split()
        if event == "start":
            starts.append((run, key, int(pid), float(at)))
        else:
            ends[run] = float(at)
    for run, key, pid, at in starts:
        end = ends.get(run) or deaths[pid]
        changes[key] += [(at, 1), (end, -1)]
    most = {}
    for key, found in changes.items():
        running = highest = 0
        for _, change in sorted(found):
            running += change
            highest = max(highest, running)
        most[key] = highest
    return most


def kill_all(find: Callable[[], set[int]]) -> dict[int, float]:
    """Kill processes and return a moment, for each, at which none of them ran any more and none had ended.

    So no other run can have got the permit of one of theirs before that moment.
    """
    stopped: set[int] = set()
    while new := find() - stopped:
        for pid in new:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        eventually(lambda: all(is_stopped(pid) for pid in new))
        stopped |= new
    now = time.monotonic()
    for pid in stopped:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return dict.fromkeys(stopped, now)


def is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TZ"
    except OSError:
        return True  # it has exited


@pytest.mark.databases("postgresql")
def test_kills_neither_exceed_a_limit_nor_lose_a_permit(database, site, tmp_path):
    ledger = tmp_path / "ledger"
    ledger.touch()
    environment = {"DJQUEUE_TEST_LEDGER": str(ledger)}
    choose = random.Random(7)
    deaths: dict[int, float] = {}

    def start():
        return site.start_ready("--threads", "4", env=environment, **OPTIONS)

    workers = [start() for _ in range(2)]
    enqueued = 0
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline or len(deaths) < 5:
        calls = [djqueue.call(choose.randrange(KEYS)) for _ in range(60)]
        enqueued += len(tasks.noted.using(max_attempts=1000).enqueue_many(calls))
        time.sleep(1)
        victim = choose.randrange(len(workers))
        if choose.random() < 0.5:
            deaths |= kill_all(workers[victim].members)
            workers[victim] = start()
        else:
            deaths |= kill_all(lambda: set(workers[victim].workers()))
    eventually(lambda: not rows(Job).exists(), 150)
    # Every permit is there: the next jobs of every key run at once.
    calls = [djqueue.call(key) for key in range(KEYS) for _ in range(LIMIT + 1)]
    enqueued += len(tasks.noted.enqueue_many(calls))
    eventually(lambda: not rows(Job).exists())
    assert rows(DoneJob).count() == enqueued
    assert not rows(DeadJob).exists()
    most = most_at_once(ledger, deaths)
    assert set(most) == {str(key) for key in range(KEYS)}
    assert max(most.values()) == LIMIT, most


@pytest.mark.databases("postgresql", "sqlite", "mysql")
def test_a_worker_without_notifications_admits_by_itself(database, site):
    """And not when it looks for keys that were left behind, which would come much later here."""
    site.start_ready("--threads", "2", env=constants(SWEEP=LONG), NOTIFY=False, POLL_INTERVAL=0.3)
    for count in (6, 7):
        tasks.double_limited.enqueue_many([djqueue.call(n) for n in range(count)])
        eventually(lambda: not rows(Job).exists())


@pytest.mark.databases("postgresql", "sqlite", "mysql")
def test_a_throttled_key_waits_and_goes_on(database, site):
    site.start_ready("--threads", "2")
    first = tasks.throttled_once.enqueue("k")
    second = tasks.throttled_once.enqueue("k")
    records = [handle.wait(60).record for handle in (first, second)]
    assert [record.result for record in records] == ["done", "done"]
    # The first was throttled for a second, gave its attempt back, and the second waited with it.
    assert [record.attempts for record in records] == [1, 1]
    assert all((record.claimed_at - record.enqueued_at).total_seconds() >= 0.9 for record in records)


@pytest.mark.databases("postgresql", "sqlite", "mysql")
def test_a_cancelled_permit_is_handed_on(database, site):
    """By a process that is no worker: a supervisor is notified, or polls."""
    worker = site.start_ready("--threads", "4", POLL_INTERVAL=0.3)
    djqueue.limits.set("limited", concurrency=1)
    running = tasks.wait_limited.enqueue("gate")
    eventually(lambda: worker.started([running]))
    blocked = tasks.double_limited.using(limit_key="limited").enqueue(1)
    assert statements().get(blocked.id).status == "blocked"
    djqueue.kv.set("gate", True)
    assert blocked.wait(60).completed


@pytest.mark.databases("postgresql", "sqlite", "mysql")
def test_a_rate_goes_on_after_a_job_that_took_longer_than_its_turn(database, site):
    """Its permit comes back when the rate allows the next job, and a supervisor has to know when the one after may."""
    site.start_ready("--threads", "2", env=constants(SWEEP=LONG), POLL_INTERVAL=0.3)
    djqueue.limits.set("limited", concurrency=1, rate="1/s", burst=1)
    slow = tasks.wait_limited.enqueue("gate")
    quick = tasks.double_limited.enqueue_many([djqueue.call(n) for n in range(3)])
    eventually(lambda: slow.status() == "claimed")
    time.sleep(1.5)
    opened = time.monotonic()
    djqueue.kv.set("gate", True)
    for handle in quick:
        assert handle.wait(60).completed
    assert time.monotonic() - opened > 1.5  # two seconds


@pytest.mark.databases("postgresql")
def test_a_schedule_fires_jobs_with_the_key_of_their_task(database, site):
    """The supervisor fires schedules, and does not import the tasks."""
    site.start_ready("--threads", "2")
    schedules.create("tick", task="tests.worker.tasks.noted_by_default", cron="* * * * * *")
    done = eventually(lambda: rows(DoneJob).filter(schedule="tick").first())
    assert done.limit_key == "by default:3"
