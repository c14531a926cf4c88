"""The parts of the cluster tests that need no cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import OperationalError

import djqueue
from benchmarks.cluster import packages
from benchmarks.cluster.course import LOST, SETTLED_TWICE
from benchmarks.cluster.multi_primary import is_own_conflict
from benchmarks.cluster.outages import Outage
from benchmarks.cluster.producers import RepeatingProducer
from benchmarks.soak import audit, ledger
from benchmarks.soak.evidence import Evidence, read_producers
from benchmarks.soak.producers import choose
from djqueue.models import Job

CONFLICT = "(1213, 'Deadlock found when trying to get lock; try restarting transaction')"


class Unanswered(RepeatingProducer):
    """A producer whose first enqueue is stored, but not answered."""

    answered = False

    def enqueue_alone(self, calls):
        stored = super().enqueue_alone(calls)
        return self.answer(stored)

    def enqueue(self, calls):
        stored = super().enqueue(calls)
        return self.answer(stored)

    def answer(self, stored):
        if not self.answered:
            self.answered = True
            raise OperationalError("the connection was lost")
        return stored


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(ledger.FOLDER, str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("kind", ["quick", "deduplicated", "batch"])
def test_an_enqueue_without_an_answer_is_repeated_and_stored_once(database, folder, kind):
    producer = Unanswered(7)
    calls = [choose(producer.rng, kind if kind != "batch" else "quick") for _ in range(3 if kind == "batch" else 1)]
    assert producer.send(kind, calls) == len(calls)
    assert Job.objects.using(database).count() == len(calls)
    found = Evidence([])
    read_producers(found, folder)
    assert found.kinds.total() == len(calls)
    assert len(found.raised) == 1
    assert not found.uncertain


def test_an_id_that_is_taken_before_the_first_try_is_an_error(database, folder):
    producer = RepeatingProducer(7)
    [call] = [choose(producer.rng, "quick")]
    producer.enqueue([call])
    with pytest.raises(djqueue.DuplicateJob):
        producer.enqueue([call])


def test_the_rules_of_the_summary_exist():
    names = {rule.__name__.replace("_", " ") for rule in audit.RULES}
    assert {*LOST, *SETTLED_TWICE} <= names


def test_only_a_transaction_of_the_producer_may_be_refused():
    assert is_own_conflict("batch", CONFLICT)
    assert not is_own_conflict("batch without a transaction", CONFLICT)
    assert not is_own_conflict("quick", CONFLICT)
    assert not is_own_conflict("batch", "(2013, 'Lost connection to server during query')")


def test_the_time_until_jobs_start_again_ends_with_the_longest_pause():
    outage = Outage("server killed", begin=10.0, over=13.0, healthy=20.0)
    # 10.1: a job that the worker had claimed before.
    assert outage.jobs_again([9.9, 10.0, 10.1, 14.0, 14.2, 16.0, 19.0, 21.0]) == pytest.approx(4.0)
    assert outage.jobs_again([9.0, 25.0]) == pytest.approx(15.0)
    assert outage.jobs_again([9.0]) == outage.jobs_again([9.0, 10.1]) == float("inf")


def test_programs_that_are_there_need_no_package(monkeypatch):
    monkeypatch.setattr(packages.subprocess, "run", lambda *args, **options: pytest.fail("something was installed"))
    packages.need(dash="sh")
    assert packages.unpacked("dash", "sh").name == "sh"


def test_a_missing_program_is_named_with_the_command(monkeypatch):
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit, match="apt-get install .* no-such-package"):
        packages.need(no_such_package="/no/such/program")
