"""The ledgers and the arithmetic of the comparison with other queues."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.compare.ledgers import Ledgers, NotOnceError
from benchmarks.compare.results import Results
from benchmarks.compare.targets import Target
from benchmarks.compare.workloads.drain import rate
from benchmarks.compare.workloads.mixed import free_time

ROOT = Path(__file__).resolve().parents[1]
RECORD = "import sys; from benchmarks.compare.systems.ledger import record; [record(int(n)) for n in sys.argv[1:]]"


@pytest.fixture
def ledgers() -> Iterator[Ledgers]:
    found = Ledgers()
    yield found
    found.close()


def ran(ledgers: Ledgers, *numbers: int) -> None:
    """Let one process run jobs with these numbers."""
    environment = {"COMPARE_LEDGER": str(ledgers.path), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", RECORD, *map(str, numbers)], env=environment, check=True)


def test_jobs_of_several_processes_are_counted_together(ledgers: Ledgers) -> None:
    ran(ledgers, *range(1000))
    assert ledgers.done() == 1000
    ran(ledgers, *range(1000, 1700))
    assert ledgers.done() == 1700
    assert sorted(ledgers.counts().values()) == [700, 1000]
    assert [number for _, number, _ in ledgers.records()] == [*range(1700)]
    ledgers.check(0, 1700)


def test_a_job_that_did_not_run_fails_the_check(ledgers: Ledgers) -> None:
    ran(ledgers, 5, 6, 8)
    with pytest.raises(NotOnceError, match=r"1 did not run \[7\]"):
        ledgers.check(5, 4)


def test_a_job_that_ran_twice_fails_the_check(ledgers: Ledgers) -> None:
    ran(ledgers, 5, 6)
    ran(ledgers, 6)
    with pytest.raises(NotOnceError, match=r"1 ran more than once \[6\]"):
        ledgers.check(5, 2)


def test_a_job_of_another_run_fails_the_check(ledgers: Ledgers) -> None:
    ran(ledgers, 5, 6)
    with pytest.raises(NotOnceError, match=r"1 others ran \[5\]"):
        ledgers.check(6, 1)


def test_the_rate_begins_when_every_process_has_run_a_job() -> None:
    early = [(number * 0.1, number, 1) for number in range(10)]  # ten jobs per second, by one process
    both = [(1 + number * 0.01, 10 + number, 1 + number % 2) for number in range(101)]
    assert rate(early + both, 2) == pytest.approx(100, rel=0.02)


def test_the_best_settings_are_those_of_the_fastest_drain() -> None:
    results = Results()
    for batch, one, two, cpu in ((100, 10.0, 50.0, 1.0), (500, 20.0, 40.0, 2.0)):
        results.add("pgqueuer", "drain 1", one, {"batch": batch})
        results.add("pgqueuer", "drain 2", two, {"batch": batch})
        results.add("pgqueuer", "cpu 1", cpu, {"batch": batch})
    assert results.median("pgqueuer", "drain 1") == 20
    assert results.median("pgqueuer", "drain 2") == 50
    assert results.median("pgqueuer", "cpu 1") == 2


@pytest.mark.parametrize(("value", "reached"), [(0.59, False), (0.6, True), (None, None)])
def test_a_target_is_reached_or_missed_or_not_measured(value: float | None, reached: bool | None) -> None:
    assert Target("drain", value, 0.6).reached is reached


def test_a_wait_counts_only_while_a_thread_is_free() -> None:
    assert free_time(0.0, 0.01, [0.0] * 4) == pytest.approx(0)
    assert free_time(0.0, 0.01, [0.0] * 3) == pytest.approx(0.01)
    assert free_time(0.0, 0.012, [0.002] * 4) == pytest.approx(0.002)
