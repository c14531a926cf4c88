"""One ledger of the jobs in hand: dict, shared memory and counts change together, in this order."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import uuid4

from djqueue.core.records import Settlement
from djqueue.states import Verdict
from djqueue.worker.held_jobs import ENDED, HELD, RUNNING, HeldJobs
from djqueue.worker.process.in_hand import Counts, InHand


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
    holding = in_hand.take(job, coroutine=False, marked=True)
    assert (states(in_hand), numbers(in_hand.counts)) == ([HELD], (1, 1, 0, 0, 0))
    in_hand.start(holding, timeout=5.0)
    assert (states(in_hand), numbers(in_hand.counts)) == ([RUNNING], (1, 1, 0, 1, 1))
    assert [entry.deadline for entry in in_hand.held_jobs.read()] == [holding.started_at + 5.0]
    assert in_hand.end(holding, outcome(job))
    assert (states(in_hand), numbers(in_hand.counts)) == ([ENDED], (1, 0, 0, 1, 0))
    assert in_hand.drop(holding)
    assert (states(in_hand), numbers(in_hand.counts)) == ([], (0, 0, 0, 0, 0))
    assert in_hand.counts.finished == 1
    assert in_hand.counts.by_queue["default"] == 0


def test_an_outcome_is_reported_once_and_a_job_is_dropped_once():
    in_hand, job = InHand(HeldJobs()), make_job()
    holding = in_hand.take(job, coroutine=True, marked=True)
    in_hand.start(holding, None)
    assert [in_hand.end(holding, outcome(job)) for _ in range(2)] == [True, False]
    assert [in_hand.drop(holding) for _ in range(2)] == [True, False]
    assert numbers(in_hand.counts) == (0, 0, 0, 0, 0)
    assert in_hand.counts.finished == 1


def test_a_job_that_is_handed_over_leaves_no_trace():
    in_hand, job = InHand(HeldJobs()), make_job()
    holding = in_hand.take(job, coroutine=False, marked=False)
    assert list(in_hand.unmarked.values()) == [holding]
    assert in_hand.drop(holding)
    assert (in_hand.held, in_hand.unmarked, states(in_hand)) == ({}, {}, [])
    assert (numbers(in_hand.counts), in_hand.counts.finished) == ((0, 0, 0, 0, 0), 0)


def test_a_job_that_is_given_back_does_not_count_as_run():
    in_hand, job = InHand(HeldJobs()), make_job()
    average = in_hand.counts.average
    holding = in_hand.take(job, coroutine=False, marked=True)
    assert in_hand.end(holding, outcome(job))
    assert in_hand.drop(holding)
    assert (numbers(in_hand.counts), in_hand.counts.finished) == ((0, 0, 0, 0, 0), 0)
    assert in_hand.counts.average == average
