"""One ledger of the jobs in hand: dict, shared memory and counts change together, in this order."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import uuid4

import pytest

from djqueue.core.records import Settlement
from djqueue.lifecycle import claim as claiming
from djqueue.states import Verdict
from djqueue.worker.held_jobs import ENDED, HELD, RUNNING, HeldJobs
from djqueue.worker.options import Options
from djqueue.worker.outages import Outages
from djqueue.worker.process.budget import Budget
from djqueue.worker.process.in_hand import Counts, Holding, InHand, Kind, Starter
from tests.app.tasks import add


def make_job(queue: str = "default"):
    return SimpleNamespace(id=uuid4(), token=uuid4(), queue=queue, lease=30.0, cancel_requested=False)


def outcome(job) -> Settlement:
    return Settlement(id=job.id, token=job.token, verdict=Verdict.ACK)


def states(in_hand: InHand) -> list[int]:
    return [entry.state for entry in in_hand.held_jobs.read()]


def numbers(counts: Counts) -> tuple[int, ...]:
    return (counts.total, counts.for_threads, counts.for_loop, counts.running, counts.running_in_threads)


def test_a_job_that_runs_to_its_end():
    in_hand, job = InHand(HeldJobs()), make_job()
    in_hand.take([holding := Holding(job, marked=True)])
    assert (states(in_hand), numbers(in_hand.counts)) == ([HELD], (1, 1, 0, 0, 0))
    in_hand.start(holding, timeout=5.0)
    assert (states(in_hand), numbers(in_hand.counts)) == ([RUNNING], (1, 1, 0, 1, 1))
    assert [entry.deadline for entry in in_hand.held_jobs.read()] == [holding.started_at + 5.0]
    assert in_hand.end(holding, outcome(job))
    assert (states(in_hand), numbers(in_hand.counts)) == ([ENDED], (1, 0, 0, 1, 0))
    assert in_hand.drop([holding]) == [holding]
    assert (states(in_hand), numbers(in_hand.counts)) == ([], (0, 0, 0, 0, 0))
    assert in_hand.counts.finished == 1
    assert in_hand.counts.by_queue["default"] == 0


def test_an_outcome_is_reported_once_and_a_job_is_dropped_once():
    in_hand, job = InHand(HeldJobs()), make_job()
    in_hand.take([holding := Holding(job, Kind(coroutine=True), marked=True)])
    in_hand.start(holding, None)
    assert [in_hand.end(holding, outcome(job)) for _ in range(2)] == [True, False]
    assert [in_hand.drop([holding]) for _ in range(2)] == [[holding], []]
    assert numbers(in_hand.counts) == (0, 0, 0, 0, 0)
    assert in_hand.counts.finished == 1


def test_a_job_that_is_handed_over_leaves_no_trace():
    in_hand, job = InHand(HeldJobs()), make_job()
    in_hand.take([holding := Holding(job)])
    assert list(in_hand.unmarked) == [holding]
    assert in_hand.drop([holding]) == [holding]
    assert (in_hand.held, in_hand.unmarked, states(in_hand)) == ({}, {}, [])
    assert (numbers(in_hand.counts), in_hand.counts.finished) == ((0, 0, 0, 0, 0), 0)


def test_a_job_that_is_given_back_does_not_count_as_run():
    in_hand, job = InHand(HeldJobs()), make_job()
    average = in_hand.counts.average
    in_hand.take([holding := Holding(job, marked=True)])
    assert in_hand.end(holding, outcome(job))
    assert in_hand.drop([holding]) == [holding]
    assert (numbers(in_hand.counts), in_hand.counts.finished) == ((0, 0, 0, 0, 0), 0)
    assert in_hand.counts.average == average


def run_for(in_hand: InHand, seconds: float) -> float:
    """Let a job run for so long, and return the new average."""
    job = make_job()
    in_hand.take([holding := Holding(job, marked=True)])
    in_hand.start(holding, None)
    holding.started_at -= seconds
    in_hand.end(holding, outcome(job))
    in_hand.drop([holding])
    return in_hand.counts.average


def test_the_average_follows_the_run_times_but_not_a_single_one():
    in_hand = InHand(HeldJobs())
    short = [run_for(in_hand, 0.0001) for _ in range(100)][-1]
    assert short < 0.0005
    assert run_for(in_hand, 0.02) < 2 * short + 0.0001  # it had to wait for Python's lock
    longer = [run_for(in_hand, 0.02) for _ in range(60)][-1]
    assert 0.015 < longer < 0.03


def test_no_room_appears_while_a_group_is_dropped():
    """The claimer reads the counts at any moment: with more room, it would claim more than --max-jobs."""
    rooms = []

    class Watched(Counts):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if rooms:
                rooms.append(budget.total_room)

    in_hand = InHand(HeldJobs())
    in_hand.counts = Watched()
    budget = Budget(Options(max_jobs=10), in_hand.counts)
    in_hand.take(holdings := [Holding(make_job(), marked=True) for _ in range(3)])
    for holding in holdings:
        in_hand.start(holding, None)
        in_hand.end(holding, outcome(holding.job))
    rooms.append(budget.total_room)
    in_hand.drop(holdings)
    assert (rooms[0], max(rooms), rooms[-1]) == (7, 7, 7)


@pytest.mark.databases("postgresql", "sqlite", "mysql")
def test_a_job_whose_lease_was_lost_before_it_starts_is_not_run(database):
    add.enqueue(1)
    [job] = claiming.claim({"default": 1}, begin=0)
    job.release()
    in_hand, given_back = InHand(HeldJobs()), []
    in_hand.take([holding := Holding(job)])
    starter = Starter(in_hand, given_back.extend, Outages(pytest.fail), threads=1)
    assert starter.start(holding, None) is False
    assert (given_back, states(in_hand), holding.started) == ([holding], [HELD], False)
