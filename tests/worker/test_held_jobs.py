"""The jobs that a process holds, as another process reads them."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from uuid import uuid4

import pytest

from djqueue.core.records import Settlement
from djqueue.exceptions import DjqueueError
from djqueue.states import Verdict
from djqueue.worker.held_jobs import CAPACITY, ENDED, HELD, RUNNING, Entry, HeldJobs, new_memory
from djqueue.worker.supervisor.crashes import left_behind


def test_a_reader_sees_held_running_and_ended_jobs():
    held_jobs = HeldJobs()
    waiting, running = (uuid4(), uuid4()), (uuid4(), uuid4())
    held_jobs.add(waiting, 30)
    place = held_jobs.add(running, 12.5)
    held_jobs.start(place, running, 12.5, 99.0)
    assert list(held_jobs.read()) == [Entry(waiting, 30, HELD, 0, 0), Entry(running, 12.5, RUNNING, 99.0, 1)]
    held_jobs.end(place, Settlement(id=running[0], token=running[1], verdict=Verdict.ACK))
    assert list(held_jobs.read())[1] == Entry(running, 12.5, ENDED, 0, 1)
    held_jobs.remove(place)
    assert list(held_jobs.read()) == [Entry(waiting, 30, HELD, 0, 0)]
    held_jobs.clear()
    assert list(held_jobs.read()) == []


@pytest.mark.parametrize("killed_for", ["", "timeout"])
def test_of_the_jobs_of_an_exited_process_only_those_that_may_be_the_cause_are_blamed(killed_for):
    """After a crash, all that ran. If the supervisor killed the process, those for which it did. None that waited."""
    held_jobs = HeldJobs()
    waiting, running, overdue, ended = ((uuid4(), uuid4()) for _ in range(4))
    held_jobs.add(waiting, 30)
    for claim in (running, overdue, ended):
        place = held_jobs.add(claim, 30)
        held_jobs.start(place, claim, 30, 0)
    held_jobs.end(place, Settlement(id=ended[0], token=ended[1], verdict=Verdict.ACK))
    blamed = frozenset([overdue[0]]) if killed_for else frozenset()
    child = SimpleNamespace(held_jobs=held_jobs, killed_for=killed_for, blamed=blamed)
    left = left_behind(child, list(held_jobs.read()), -9)
    assert (left.reason, left.crashed) == (killed_for or "worker process killed by signal 9", not killed_for)
    assert [(job.id, job.token) for job in left.jobs] == [waiting, running, overdue, ended]
    assert [job.blamed for job in left.jobs] == [False, not killed_for, True, False]
    assert [job.outcome is not None for job in left.jobs] == [False, False, False, True]


def test_a_forked_process_writes_for_its_parent():
    memory = new_memory(2)
    mine, theirs = HeldJobs(memory, 0), HeldJobs(memory, 1)
    claim = (uuid4(), uuid4())
    child = os.fork()
    if child == 0:
        HeldJobs(memory, 1).add(claim, 5)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert list(mine.read()) == []
    assert list(theirs.read()) == [Entry(claim, 5, HELD, 0, 0)]


def test_places_are_reused_and_limited():
    held_jobs = HeldJobs()
    places = [held_jobs.add((uuid4(), uuid4()), 1) for _ in range(CAPACITY)]
    with pytest.raises(DjqueueError, match="at most 1024 jobs"):
        held_jobs.add((uuid4(), uuid4()), 1)
    held_jobs.remove(places[7])
    assert held_jobs.add((uuid4(), uuid4()), 1) == places[7]


def outcome(**fields) -> tuple[Settlement, Settlement, bool]:
    """A settlement, what another process reads of it, and whether its result was lost."""
    memory = new_memory(3)
    claim = (uuid4(), uuid4())
    given = Settlement(id=claim[0], token=claim[1], **fields)
    writer = HeldJobs(memory, 1)
    writer.add((uuid4(), uuid4()), 1)
    writer.end(writer.add(claim, 5), given)
    [_, entry] = HeldJobs(memory, 1).read()
    return given, *HeldJobs(memory, 1).outcome(entry)


@pytest.mark.parametrize(
    "fields",
    [
        {"verdict": Verdict.ACK, "result": '"grüße"', "wait": 0.25, "run": 3.5, "keep_done": False},
        {"verdict": Verdict.ACK, "result": None},
        {"verdict": Verdict.NACK, "error": "boom", "entry": '{"message":"boom"}\n', "delay": 7.5, "final": True},
        {"verdict": Verdict.SNOOZE, "delay": 1.0, "unknown": True},
        {"verdict": Verdict.CANCEL},
        {"verdict": Verdict.RELEASE},
    ],
    ids=lambda fields: fields["verdict"],
)
def test_an_outcome_is_read_as_it_was_written(fields):
    given, read, result_lost = outcome(**fields)
    assert read == given
    assert not result_lost


def test_a_result_that_does_not_fit_is_lost_and_the_success_is_not():
    _, read, result_lost = outcome(verdict=Verdict.ACK, result='"' + 5000 * "x" + '"')
    assert (read.verdict, read.result, result_lost) == (Verdict.ACK, None, True)


@pytest.mark.parametrize("character", ["x", "ü", "😀", "\\", '"'])
def test_an_error_that_does_not_fit_is_cut(character):
    entry = {"message": 2000 * character, "exception": 500 * character, "traceback": 9000 * character, "attempt": 2}
    given, read, _ = outcome(verdict=Verdict.NACK, error=2000 * character, entry=json.dumps(entry) + "\n", delay=3.0)
    assert given.error.startswith(read.error)
    assert (read.verdict, read.delay) == (Verdict.NACK, 3.0)
    assert json.loads(read.entry)["traceback"] == ""
