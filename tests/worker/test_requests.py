"""Quiet, resume and drain through the database, with a worker of threads in this process."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import djqueue
from djqueue.core.identity import identity
from djqueue.lifecycle.worker_requests import request
from djqueue.models import Job, Worker
from djqueue.states import WorkerRequest
from djqueue.worker.options import Options
from djqueue.worker.process import claimer
from djqueue.worker.single_process import SingleProcess
from djqueue.worker.supervisor import requests
from djqueue.worker.supervisor.heartbeats import Heartbeats, ProcessStatus
from tests.conftest import PLAIN
from tests.factories import WorkerFactory, ago
from tests.tools import database_now, eventually, in_threads, rows
from tests.worker import tasks

pytestmark = pytest.mark.databases(*PLAIN)
QUIET, RESUME, DRAIN = WorkerRequest.QUIET, WorkerRequest.RESUME, WorkerRequest.DRAIN


@pytest.fixture(autouse=True)
def read_often(monkeypatch):
    monkeypatch.setattr(requests, "INTERVAL", 0.05)


@contextmanager
def working(options: Options | None = None):
    """A worker, and the future of its exit code."""
    worker = SingleProcess(options or Options(threads=2))
    with ThreadPoolExecutor(1) as pool:
        code = pool.submit(worker.run)
        try:
            eventually(lambda: rows(Worker).filter(pk=identity(), stopped_at=None).exists() or code.done())
            yield worker, code
        finally:
            if not code.done():
                worker.stop()
            code.result(60)


def row() -> Worker:
    return rows(Worker).get(pk=identity())


def test_a_quiet_worker_claims_nothing_until_it_resumes(database):
    with working() as (worker, _):
        assert tasks.double.enqueue(1).wait(30).record.result == 2
        assert request(identity(), QUIET) == 1
        eventually(lambda: row().quiet)
        handles = [tasks.double.using(queue=f"q{number}").enqueue(number) for number in range(3)]
        turns = worker.worker.claimer.turns
        for _ in range(20):  # as often as it is woken up
            before = turns.good_until
            worker.worker.wakeup.set()
            eventually(lambda before=before: turns.good_until != before)
        assert {handle.status() for handle in handles} == {"pending"}
        assert request(identity(), RESUME) == 1
        assert [handle.wait(30).record.result for handle in handles] == [0, 2, 4]
        eventually(lambda: not row().quiet)


def test_a_running_job_goes_on_in_a_quiet_worker(database):
    with working() as (worker, _):
        running = tasks.wait_for.enqueue("go")
        eventually(lambda: worker.worker.in_hand.counts.running)
        request(identity(), QUIET)
        eventually(lambda: row().quiet)
        assert running.status() == "claimed"
        djqueue.kv.set("go", True)
        assert running.wait(30).record.attempts == 1


def test_a_claim_under_way_when_the_worker_becomes_quiet_is_run(database, monkeypatch):
    claiming, go_on = threading.Event(), threading.Event()
    claim = claimer.claim

    def slow(*args, **options):
        jobs = claim(*args, **options)
        if jobs:
            claiming.set()
            assert go_on.wait(30)
        return jobs

    monkeypatch.setattr(claimer, "claim", slow)
    with working() as (worker, _):
        first = tasks.double.enqueue(1)
        assert claiming.wait(30)
        second = tasks.double.using(queue="later").enqueue(2)
        request(identity(), QUIET)
        eventually(lambda: worker.worker.quiet)
        go_on.set()
        assert first.wait(30).record.result == 2
        assert second.status() == "pending"
        assert rows(Job).get().attempts == 0


def test_a_drain_lets_running_jobs_finish_and_the_exit_code_is_0(database):
    with working() as (worker, code):
        running = tasks.wait_for.enqueue("go")
        eventually(lambda: worker.worker.in_hand.counts.running)
        request(identity(), DRAIN)
        eventually(lambda: row().draining)
        later = tasks.double.enqueue(1)
        djqueue.kv.set("go", True)
        assert code.result(60) == 0
    assert (running.status(), later.status()) == ("done", "pending")
    assert row().stopped_at is not None


def test_a_signal_after_a_request_to_drain_does_not_take_the_time_of_running_jobs(database):
    with working() as (worker, code):
        running = tasks.wait_for.enqueue("go")
        eventually(lambda: worker.worker.in_hand.counts.running)
        request(identity(), DRAIN)
        eventually(lambda: row().draining)
        worker.stop()
        djqueue.kv.set("go", True)
        assert code.result(60) == 0
    assert running.job().attempts == 1


def test_a_quiet_burst_exits_when_its_jobs_have_ended(database):
    tasks.wait_for.enqueue("go")
    with working(Options(burst=True, threads=1)) as (worker, code):
        eventually(lambda: worker.worker.in_hand.counts.running)
        request(identity(), QUIET)
        eventually(lambda: worker.worker.quiet)
        left = tasks.double.enqueue(1)
        djqueue.kv.set("go", True)
        assert code.result(60) == 0
    assert left.status() == "pending"


def test_the_loops_of_a_quiet_worker_do_not_age(database):
    with working() as (worker, _):
        request(identity(), QUIET)
        eventually(lambda: worker.worker.quiet)
        worker.worker.wakeup.set()
        eventually(lambda: worker.worker.claimer.turns.good_until > time.monotonic() + 0.1)  # it rests
        eventually(lambda: worker.worker.loops() == {"claimer": 0, "completer": 0})


# The writing side


def test_a_request_is_for_all_live_processes_of_the_worker(database):
    for name in ("a", "b"):
        WorkerFactory(identity=name, supervisor="boss")
    WorkerFactory(identity="other", supervisor="another")
    WorkerFactory(identity="gone", supervisor="boss", stopped_at=ago(1))
    WorkerFactory(identity="lost", supervisor="boss", heartbeat_at=ago(60))
    before = database_now()
    assert request("a", DRAIN) == 2
    assert set(rows(Worker).filter(request="drain").values_list("pk", flat=True)) == {"a", "b"}
    times = set(rows(Worker).filter(request="drain").values_list("requested_at", flat=True))
    assert len(times) == 1
    assert before <= times.pop() <= database_now()


def test_workers_without_a_supervisor_are_asked_one_by_one(database):
    WorkerFactory(identity="a")
    WorkerFactory(identity="b")
    assert request("a", QUIET) == 1
    assert rows(Worker).get(pk="b").request == ""


@pytest.mark.parametrize("state", [{"stopped_at": ago(1)}, {"heartbeat_at": ago(60)}])
def test_a_worker_that_is_gone_cannot_be_asked(database, state):
    WorkerFactory(identity="a", supervisor="boss", **state)
    WorkerFactory(identity="b", supervisor="boss")
    assert request("a", DRAIN) == request("nobody", DRAIN) == 0
    assert set(rows(Worker).values_list("request", flat=True)) == {""}


def test_requests_and_heartbeats_at_once_all_succeed(database):
    """They lock the same rows: both in the order of their primary keys."""
    names = [f"host:{number}:{number * 7919 % 100}" for number in range(20)]
    heartbeats = Heartbeats(Options(), "boss")
    heartbeats.beat([ProcessStatus(name, 1) for name in names])

    def work(number: int) -> int:
        if number % 2:
            for _ in range(15):
                heartbeats.beat([ProcessStatus(name, 1, running=number) for name in reversed(names)])
            return 20
        return min(request(names[number], what) for _ in range(5) for what in WorkerRequest)

    assert in_threads(4, work) == [20] * 4


# The reading side


class Reader:
    """What a supervisor with these processes reads."""

    def __init__(self, *identities: str) -> None:
        self.obeyed: list[WorkerRequest] = []
        statuses = [ProcessStatus(name, 1) for name in identities]
        self.requests = requests.Requests(lambda: statuses, self.obeyed.append)
        self.requests.work()  # at its start

    def read(self) -> list[WorkerRequest]:
        self.requests.work()
        obeyed, self.obeyed[:] = list(self.obeyed), []
        return obeyed


def test_a_request_is_obeyed_once(database):
    WorkerFactory(identity="a", supervisor="boss")
    WorkerFactory(identity="b", supervisor="boss")
    reader = Reader("a", "b")
    assert reader.read() == []
    for what in (QUIET, QUIET, RESUME, DRAIN):
        request("b", what)
        assert reader.read() == [what]
        assert reader.read() == []


def test_the_latest_of_several_requests_is_obeyed(database):
    WorkerFactory(identity="a")
    reader = Reader("a")
    request("a", DRAIN)
    request("a", RESUME)
    assert reader.read() == [RESUME]


def test_a_request_to_a_process_that_has_exited_since_is_obeyed(database):
    WorkerFactory(identity="a", supervisor="boss")
    reader = Reader("a", "b")
    request("a", QUIET)
    rows(Worker).update(stopped_at=database_now())
    WorkerFactory(identity="b", supervisor="boss")
    assert reader.read() == [QUIET]


def test_requests_to_other_workers_are_not_read(database):
    WorkerFactory(identity="a", supervisor="boss")
    WorkerFactory(identity="b", supervisor="another")
    WorkerFactory(identity="c")
    readers = Reader("a"), Reader()
    for name in ("b", "c"):
        assert request(name, DRAIN) == 1
    assert [reader.read() for reader in readers] == [[], []]


def test_a_request_from_before_the_start_is_ignored(database):
    """A second worker of threads in one process has the row of the first."""
    WorkerFactory(identity="a")
    request("a", DRAIN)
    reader = Reader("a")
    assert reader.read() == []
    request("a", DRAIN)
    assert reader.read() == [DRAIN]


def test_a_worker_of_threads_that_is_started_again_works(database):
    with working() as (_, code):
        request(identity(), DRAIN)
        assert code.result(60) == 0
    with working() as (worker, code):
        assert tasks.double.enqueue(1).wait(30).record.result == 2
        assert not worker.worker.draining


@pytest.mark.parametrize("what", ["", "explode", "DRAIN"])
def test_an_unknown_request_is_ignored(database, what):
    WorkerFactory(identity="a")
    reader = Reader("a")
    rows(Worker).update(request=what, requested_at=database_now())
    assert reader.read() == []
    with pytest.raises(ValueError, match="explode"):
        request("a", "explode")
