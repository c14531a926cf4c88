"""Many workers, sweeps and operators at once (FAILURES 21, 22 and 25)."""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter
from functools import partial

import pytest
from django.db import connections

import djqueue
from djqueue import call, maintenance
from djqueue.lifecycle.cancel import cancel_many
from djqueue.lifecycle.requeue import reschedule_many
from djqueue.models import DeadJob, DoneJob, Job
from tests import postgres
from tests.tools import eventually, rows
from tests.worker import tasks

pytestmark = pytest.mark.faults
SECONDS = 60.0
# Every error of a worker that it shows to its operator, but for tasks that fail.
SHOWN = re.compile(
    r"^.* (?:ERROR|CRITICAL) (?!dead job=).*$"
    r"|^.*(?i:deadlock|serializ|database is locked|lock wait|trying again).*$",
    re.MULTILINE,
)


def some_ids(model, count: int = 50) -> list:
    ids = list(rows(model).values_list("id", flat=True)[: 4 * count])
    return random.sample(ids, min(count, len(ids)))


def enqueue() -> None:
    if rows(Job).count() > 3000:
        time.sleep(0.05)
        return
    tasks.double.enqueue_many([call(n) for n in range(100)])
    tasks.fail_until.using(max_attempts=1).enqueue_many([call(9) for _ in range(20)])
    tasks.fail_until.enqueue_many([call(2) for _ in range(20)])
    tasks.double_limited.enqueue_many([call(n) for n in range(3)])
    tasks.double.using(delay=random.uniform(0.1, 1)).enqueue_many([call(n) for n in range(20)])
    tasks.double.using(dedup_key=f"key {random.randrange(5)}").enqueue(1)


def maintain() -> None:
    for act in (maintenance.reap, maintenance.promote, maintenance.admit, maintenance.roll_up):
        act()


def sweep() -> None:
    maintenance.sweep_done(older_than=1)
    maintenance.sweep_dead(older_than=5)


def operate() -> None:
    """Acts on many jobs, of any state, in no order."""
    cancel_many(some_ids(Job, 10))
    reschedule_many(some_ids(Job), priority=random.randrange(10))
    for job_id in some_ids(DeadJob):
        try:
            djqueue.requeue(job_id)
        except djqueue.NotDead:
            pass  # another was faster, or it was swept
    queue = djqueue.Queue("default")
    queue.pause()
    queue.resume()


@pytest.mark.databases("postgresql", "mysql")
def test_workers_sweeps_and_operators_for_a_minute_show_no_error(database, site):
    start = partial(site.start, "--processes", "4", "--threads", "2", "-v", "1", LEASE=30, REAPER_INTERVAL=0.5)
    workers = [start(), start()]
    eventually(lambda: all(len(worker.workers()) == 4 for worker in workers), 100)
    deadline = time.monotonic() + SECONDS
    errors: list[str] = []
    acts: Counter[str] = Counter()

    def repeat(act) -> None:
        while time.monotonic() < deadline:
            try:
                act()
                acts[act.__name__] += 1
            except Exception as error:
                errors.append(f"{act.__name__}: {type(error).__name__}: {error}")
        connections.close_all()

    threads = [
        threading.Thread(target=repeat, args=[act]) for act in (enqueue, maintain, maintain, sweep, *2 * [operate])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 120)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []
    print(dict(acts))
    assert set(acts) == {"enqueue", "maintain", "sweep", "operate"}
    eventually(lambda: not rows(Job).exists(), 180)
    for worker in workers:
        assert worker.stop() == 0
        assert SHOWN.findall(worker.log()) == []


@pytest.mark.databases("sqlite")
def test_four_workers_and_ten_thousand_jobs_on_sqlite_meet_no_locked_database(database, site):
    handles = tasks.double.enqueue_many([call(n) for n in range(10_000)])
    workers = [site.start("--processes", "1", "--threads", "2", "-v", "1") for _ in range(4)]
    eventually(lambda: rows(DoneJob).count() == len(handles), 400)
    assert set(rows(DoneJob).values_list("attempts", flat=True)) == {1}
    for worker in workers:
        assert worker.stop() == 0
        assert SHOWN.findall(worker.log()) == []
    finished = Counter(pid for worker in workers for pid in pids_of_completed(worker))
    print(dict(finished))
    assert sum(finished.values()) == len(handles), "each ran once"
    assert len(finished) > 1, "they shared the jobs"


def pids_of_completed(worker) -> list[str]:
    """Return the process of each job that a worker has completed."""
    lines = worker.events_file.read_text().splitlines() if worker.events_file.exists() else []
    return [line.split()[3] for line in lines if line.startswith("completed")]


IDLE, ROUNDS = 50, 20


@pytest.fixture
def many_connections(database):
    """A server that accepts more than a hundred connections."""
    if not postgres.is_ours():
        pytest.skip("restarts the server: unset DATABASE_URL")
    change = "ALTER SYSTEM {} max_connections {}"
    for statement in (change.format("SET", "= 400"), change.format("RESET", "")):
        with connections[database].cursor() as cursor:
            cursor.execute(statement)
        connections[database].close()
        postgres.restart()
        if "SET max_connections =" in statement:
            yield


@pytest.mark.databases("postgresql")
def test_one_job_among_fifty_idle_processes_costs_few_claims(database, many_connections, site, tmp_path):
    """The first jobs wake up all of them; each that comes too late is slower the next time."""
    counter = tmp_path / "claims"
    counter.touch()
    env = {"DJQUEUE_TEST_IMPORT": "tests.faults.claims", "DJQUEUE_TEST_CLAIMS": str(counter)}
    worker = site.start_ready("--threads", "1", "-v", "0", processes=IDLE, env=env)
    costs = []
    for _ in range(ROUNDS):
        before = counter.stat().st_size
        assert tasks.double.enqueue(1).wait(60).completed
        time.sleep(0.3)  # until those that were woken up are idle again; it cannot be observed
        costs.append(counter.stat().st_size - before)
    print(f"claims per job, with {IDLE} idle processes: {costs}")
    learnt = sorted(costs[ROUNDS // 2 :])
    assert learnt[len(learnt) // 2] <= IDLE / 5
    assert worker.stop() == 0
