"""The estimate of a start: its arithmetic against simulated schedules, and what it reads."""

from __future__ import annotations

import heapq
import random
from bisect import bisect_right
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connections

import djqueue
from djqueue import Estimate, testing
from djqueue.models import Job
from djqueue.operations.estimate import start_times
from djqueue.operations.estimate.queueing import LATENCY, Capacity, Load, RunTime, average, run_time
from djqueue.operations.rates import Histogram
from djqueue.sql.throughput import BUCKETS
from tests.app.tasks import add, echo
from tests.conftest import PLAIN
from tests.factories import DoneJobFactory, JobFactory, ThroughputFactory, WorkerFactory, ago, now
from tests.fill import fill
from tests.sql.test_plans import explain as explain_plan
from tests.tools import eventually, live, rows, statements_sent
from tests.worker import tasks


def histogram(values: list[float]) -> Histogram:
    found = Histogram()
    for value in values:
        found.add(bisect_right(BUCKETS, value), 1, value)
    return found


def simulated_start(running: list[float], ahead: list[float], threads: int) -> float:
    """Return when a job starts after others, in the order of a queue, beside running ones."""
    free = [0.0] * (threads - len(running)) + running
    heapq.heapify(free)
    for seconds in ahead:
        heapq.heappush(free, heapq.heappop(free) + seconds)
    return free[0]


@pytest.mark.parametrize("threads", [1, 4, 16])
@pytest.mark.parametrize("jobs", [0, 1, 5, 50, 500])
def test_p90_covers_simulated_starts(jobs, threads):
    """Run times of three tasks differ by a factor of a hundred, and within a task by a factor of two."""
    dice = random.Random(f"{jobs} {threads}")
    means = [0.01, 0.1, 1.0]
    early, covered, rounds = 0, 0, 200

    def draw(task: float) -> float:
        return task * dice.lognormvariate(0, 0.7)

    for _ in range(rounds):
        runs = {mean: run_time(histogram([draw(mean) for _ in range(100)])) for mean in means}
        ahead = [dice.choice(means) for _ in range(jobs)]
        running = [draw(1.0) for _ in range(threads)]
        ages = [dice.random() * seconds for seconds in running]
        rests = [seconds - age for seconds, age in zip(running, ages, strict=True)]
        real = simulated_start(rests, [*map(draw, ahead)], threads)
        p50, p90 = Load(
            capacity=Capacity(threads, 1000),
            ahead=[(ahead.count(mean), run) for mean, run in runs.items()],
            held=[runs[1.0].remaining(age) for age in ages],
        ).start()
        early += real <= p50
        covered += real <= p90
    assert covered >= 0.85 * rounds
    assert early < 0.99 * rounds  # it is not covered by being much too late


def test_a_job_starts_at_once_if_a_thread_is_free():
    run = RunTime(60.0, 0.0)
    assert Load(Capacity(4), held=[60.0] * 3).start() == (0.0, LATENCY)
    assert Load(Capacity(1), held=[60.0]).start()[0] == 60.0
    assert Load(Capacity(4), held=[60.0] * 4).start()[0] == 15.0  # the first of four
    assert Load(Capacity(1), ahead=[(2, run)], held=[60.0]).start()[0] == 180.0


def test_a_job_that_runs_for_ever_takes_one_thread():
    run = RunTime(1.0, 0.0)
    assert Load(Capacity(4), ahead=[(30, run)], held=[1e9]).start()[0] == pytest.approx(10.0, rel=0.1)
    assert Load(Capacity(1), ahead=[(30, run)], held=[1e9]).start()[0] >= 1e9


def test_the_rest_of_a_run_depends_on_its_age():
    run = run_time(histogram([1.5] * 50 + [20.0] * 50))
    assert run.mean == pytest.approx(10.75)
    assert run.remaining(0.0) == pytest.approx(10.875, rel=0.1)
    assert 8 < run.remaining(10.0) < 12  # only the long ones have taken so long
    assert run.remaining(500.0) == 500.0


def test_averages_are_weighted():
    known = [(3, RunTime(1.0, 0.0)), (1, RunTime(5.0, 0.0))]
    assert average(known).mean == 2.0
    assert average(known).variance == pytest.approx(3.0)
    assert average([]) is None
    assert run_time(Histogram()) is None


def test_the_capacity_is_measured_while_jobs_waited():
    """Jobs that were done before a time in which the queue was empty show nothing."""
    end = now()

    def at(seconds: float):
        return end - timedelta(seconds=seconds)

    busy = [("t", at(30), at(n + 1), at(n)) for n in range(20)]  # one job per second, all due 30 s ago
    idle = [("t", at(n + 0.1), at(n + 0.1), at(n)) for n in range(100, 200)]
    runs = {"t": RunTime(1.0, 0.0)}
    found, since = start_times.measured(busy + idle, end, at(5), runs, runs["t"])
    assert since == at(30)
    assert (found.seconds, found.measured) == (pytest.approx(20 / 30), 20)
    found, _ = start_times.measured(idle, end, at(5), runs, runs["t"])
    assert (found.seconds, found.measured) == (0.0, 0)
    found, since = start_times.measured(busy[:10], end, at(30), runs, runs["t"])  # the sample is full
    assert since == at(9)
    assert found.seconds == pytest.approx(1.0)


def measured_runs(seconds: float = 1.0, count: int = 100, task: str = add.name) -> None:
    """Make a history of run times in the last hour."""
    ThroughputFactory(task=task, done=count, run_bucket=bisect_right(BUCKETS, seconds), run_sum=seconds * count)


@pytest.mark.databases(*PLAIN)
class TestEstimate:
    def test_jobs_ahead_and_their_run_times(self, database):
        measured_runs(1.0)
        worker = WorkerFactory(threads=2)
        for _ in range(2):
            JobFactory(claimed=True, worker=worker.identity)
        handles = [add.enqueue(n) for n in range(21)]
        found = djqueue.estimate(handles[20])
        assert found.ahead == 20
        assert 9 < found.p50 < 13  # 20 jobs of a second in two threads, and the rest of two
        assert found.p50 < found.p90 < 3 * found.p50
        assert djqueue.estimate(handles[0]).ahead == 0
        assert 0 < djqueue.estimate(handles[0]).p50 < 3

    def test_the_measured_speed_counts_more_than_the_threads(self, database):
        """100 jobs of a second were done in 100 s, although the worker has 50 threads: it is busy with other things."""
        measured_runs(1.0)
        due = {"enqueued_at": ago(120), "run_at": ago(120)}
        for number in range(100):
            DoneJobFactory(**due, claimed_at=ago(number + 1), completed_at=ago(number))
        for _ in range(51):
            last = JobFactory(**due)  # ids are in the order of their creation
        WorkerFactory(threads=50)
        found = djqueue.estimate(last.pk)
        assert 10 < found.p50 < 60

    def test_a_queue_that_keeps_no_done_jobs_is_measured_by_its_counts(self, database, configure):
        configure(KEEP_DONE=0)
        WorkerFactory(threads=50)
        minute = ago(120).replace(second=0, microsecond=0)
        ThroughputFactory(minute=minute, done=120, run_sum=120.0, run_bucket=bisect_right(BUCKETS, 1.0))
        for _ in range(50):
            JobFactory(enqueued_at=ago(250), run_at=ago(250))
        last = JobFactory(enqueued_at=ago(249), run_at=ago(249))
        found = djqueue.estimate(last.pk)
        assert found.ahead == 50
        assert 10 < found.p50 < 140  # 120 jobs in the last minutes: far fewer than 50 threads could do

    def test_a_free_thread_starts_a_job_at_once(self, database):
        WorkerFactory(threads=2)
        handle = add.enqueue(1)
        assert djqueue.estimate(handle) == Estimate(0, 0.0, LATENCY)

    def test_a_scheduled_job_waits_for_its_time(self, database, configure):
        configure(SCHEDULER_INTERVAL=2)
        WorkerFactory(threads=2)
        handle = add.using(delay=600).enqueue(1)
        found = djqueue.estimate(handle)
        assert found.ahead == 0
        assert 590 < found.p50 <= 600
        assert found.p90 == pytest.approx(found.p50 + 2)

    def test_a_limit_of_the_queue_bounds_the_capacity(self, database, configure):
        measured_runs(1.0)
        WorkerFactory(threads=10)
        handles = [add.enqueue(n) for n in range(31)]
        free = djqueue.estimate(handles[30])
        configure(QUEUES={"default": {"concurrency": 1}})
        limited = djqueue.estimate(handles[30])
        assert 1 < free.p50 < 5
        assert limited.p50 == pytest.approx(30.0, rel=0.1)

    def test_other_queues_share_the_threads(self, database):
        measured_runs(1.0)
        WorkerFactory(threads=10)
        handles = [add.enqueue(n) for n in range(31)]
        alone = djqueue.estimate(handles[30])
        add.using(queue="other").enqueue(1)
        assert djqueue.estimate(handles[30]).p50 > 1.5 * alone.p50
        assert 3 < djqueue.estimate(handles[30]).p50 < 9

    def test_run_times_of_the_last_day_are_used_if_the_last_hour_has_none(self, database):
        WorkerFactory(threads=1)
        JobFactory(claimed=True)
        handles = [add.enqueue(n) for n in range(5)]
        assert djqueue.estimate(handles[4]) == Estimate(4, None, None)
        ThroughputFactory(minute=ago(20_000), done=10, run_bucket=8, run_sum=20.0)
        assert djqueue.estimate(handles[4]).p50 == pytest.approx(8.0)

    def test_tasks_without_run_times_take_as_long_as_the_others(self, database):
        measured_runs(1.0)
        WorkerFactory(threads=1)
        handles = [task.enqueue(1) for task in (add, echo, add, echo, add)]
        assert djqueue.estimate(handles[4]).p50 == pytest.approx(4.0)

    def test_what_is_not_known_is_none(self, database):
        measured_runs(1.0)
        JobFactory()
        last = JobFactory()
        assert djqueue.estimate(last.pk) == Estimate(1, None, None)  # no worker
        WorkerFactory()
        assert djqueue.estimate(last.pk).p50 == pytest.approx(1.0)
        djqueue.Queue("default").pause()
        assert djqueue.estimate(last.pk) == Estimate(1, None, None)
        djqueue.Queue("default").resume()
        rows(Job).update(unknown_since=ago(5))
        assert djqueue.estimate(last.pk) == Estimate(1, None, None)
        for job in (JobFactory(claimed=True), DoneJobFactory()):
            assert djqueue.estimate(job.pk) == Estimate(0, None, None)
        for job in (uuid4(), "malformed"):
            assert djqueue.estimate(job) == Estimate(None, None, None)

    def test_more_jobs_than_are_counted(self, database, monkeypatch):
        monkeypatch.setattr(start_times, "MOST_COUNTED", 3)
        monkeypatch.setattr(start_times, "MOST_AHEAD", 6)
        measured_runs(1.0)
        WorkerFactory(threads=1)
        handles = [add.enqueue(n) for n in range(9)]
        assert djqueue.estimate(handles[6]).ahead == 6
        assert djqueue.estimate(handles[6]).p50 == pytest.approx(6.0)  # the first three stand for all
        assert djqueue.estimate(handles[7]) == Estimate(None, None, None)

    def test_a_real_worker(self, database):
        """Behind a job that runs until it is cancelled, nothing is free; afterwards the job starts."""
        with testing.worker(threads=1):
            running = tasks.wait_for_cancel.enqueue(None)
            eventually(lambda: live(running.id).started)
            handle = add.enqueue(1)
            assert eventually(lambda: djqueue.explain(handle).code == "waiting")
            assert djqueue.estimate(handle) == Estimate(0, None, None)
            measured_runs(60.0, task=tasks.wait_for_cancel.name)
            assert 10 < djqueue.estimate(handle).p50 < 300
            djqueue.cancel(running)
            assert handle.wait(20).completed

    def test_the_number_of_statements_is_bounded(self, database):
        for number in range(10):
            worker = WorkerFactory(queues=["default"])
            JobFactory(claimed=True, worker=worker.identity)
            measured_runs(1.0, task=f"t{number}")
            DoneJobFactory(task=f"t{number}", claimed_at=ago(1))
            last = JobFactory(task=f"t{number + 5}")
        with statements_sent() as sent:
            assert djqueue.estimate(last.pk).p50 is not None
        assert len(sent) <= 15, sent


@pytest.mark.databases("postgresql")
def test_each_statement_is_cheap_beside_many_jobs(database):
    fill("djqueue_job", 150_000, status="'pending'")
    fill("djqueue_donejob", 50_000, status="'done'", completed_at="now() - n * interval '1 millisecond'")
    with connections[database].cursor() as cursor:
        cursor.execute("VACUUM ANALYZE djqueue_job, djqueue_donejob")
    measured_runs(0.01)
    WorkerFactory(threads=4)
    first, last = add.using(priority=1).enqueue(1), add.enqueue(1)
    begin = rows(Job).order_by("enqueued_at").first().enqueued_at
    rows(Job).filter(pk=last.id).update(enqueued_at=begin + timedelta(microseconds=90_000))
    worker = WorkerFactory(threads=1)
    for _ in range(5):
        JobFactory(claimed=True, worker=worker.identity)
    for job, pages in ((first, 3000), (last, 30_000)):
        with statements_sent() as sent:
            assert djqueue.estimate(job).ahead is not None
        for sql in sent:
            touched, plan = explain_plan(sql.replace("%", "%%"), [])
            assert touched < pages, plan


def test_jobs_that_wait_in_their_worker_process_are_not_counted_as_running():
    """Four threads end 400 jobs of 10 ms per second and hold 20 at a time: 50 ms each, of which 40 ms are wait."""
    measured, idle = Capacity(20.0, 400).within(4, elapsed=1.0)
    assert (measured.seconds, idle) == (4, pytest.approx(0.04))
    assert RunTime(0.05, 0.0).without(idle).mean == pytest.approx(0.01)
    assert RunTime(1.0, 0.0).without(idle).mean == pytest.approx(0.96)
    assert RunTime(0.01, 0.0).without(idle).mean > 0
    assert Capacity(3.0, 400).within(4, elapsed=1.0) == (Capacity(3.0, 400), 0.0)
