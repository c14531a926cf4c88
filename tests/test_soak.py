"""The audit of the soak test finds what is wrong: each rule is given evidence that violates it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.soak import audit, ledger
from benchmarks.soak.evidence import Evidence, Raised, Row, Run, read_runs
from benchmarks.soak.faults import DATABASE_EFFECT, Fault

KILL = Fault("process killed", 10.0, 10.1, frozenset([7]), killed=True)
OUTAGE = Fault("fast restart", 10.0, 11.0, None)
DONE, DEAD = Row("donejob", "done", "a", 1, 3), Row("deadjob", "dead", "a", 3, 3)


def evidence(*runs: Run, rows: list[Row] | None = None, faults: list[Fault] | None = None) -> Evidence:
    """Return evidence of one job."""
    found = Evidence(faults or [])
    found.runs["j"] = list(runs)
    found.rows["j"] = [DONE] if rows is None else rows
    found.acknowledged["j"] = "quick"
    found.kinds["quick"] = 1
    return found


def run(start: float, end: float | None = None, error: str = "", attempt: int = 1, pid: int = 7, key: str = "") -> Run:
    return Run("j", attempt, pid, key, start, end, error)


def broken(found: Evidence) -> set[str]:
    """Return the violated rules, of those that read no database."""
    return {rule.__name__ for rule in audit.RULES if not rule.__name__.startswith(READ) and [*rule(found)]}


READ = ("counters", "totals", "permits")


def test_a_job_that_ran_once_violates_nothing():
    assert broken(evidence(run(1, 2))) == set()


def test_a_lost_job_is_found():
    found = evidence(run(1, 2))
    del found.rows["j"]
    assert broken(found) == {"every_acknowledged_job_is_stored", "the_sum_is_right"}


def test_a_job_in_two_tables_and_a_live_job_are_found():
    live = Row("job", "pending", "a", 0, 3)
    assert broken(evidence(run(1, 2), rows=[DONE, live])) == {
        "every_job_has_one_row",
        "no_job_is_left",
        "the_sum_is_right",
    }


def test_a_job_of_no_producer_is_found():
    found = evidence(run(1, 2))
    found.acknowledged.clear()
    assert broken(found) == {"every_job_was_enqueued"}


def test_half_a_transaction_is_found():
    found = evidence(run(1, 2), faults=[OUTAGE])
    found.acknowledged.clear()
    found.kinds.clear()
    found.raised.append(Raised("producer", 10.5, "batch", ["j", "k"], "OperationalError", ""))
    assert broken(found) == {"transactions_are_all_or_none"}


@pytest.mark.parametrize(
    ("first", "faults", "explained"),
    [
        (run(9, 9.5, "ExpectedError"), [], True),
        (run(9, 9.5), [], False),
        (run(9, 9.5, "Cancelled"), [], False),
        (run(9), [KILL], True),
        (run(9, pid=8), [KILL], False),
        (run(9, 9.5), [OUTAGE], True),
        (run(OUTAGE.end + DATABASE_EFFECT + 1, OUTAGE.end + DATABASE_EFFECT + 2), [OUTAGE], False),
    ],
)
def test_a_second_start_needs_a_failure_or_a_fault_of_its_process(first, faults, explained):
    again = run(first.start + 5, first.start + 6, attempt=2, pid=9)
    found = broken(evidence(first, again, faults=faults))
    assert ("every_second_start_is_explained" not in found) == explained


def test_an_attempt_that_was_not_counted_is_found():
    found = evidence(run(1, 2, "ExpectedError"), run(3, 4))
    assert broken(found) == {"failed_attempts_are_counted"}
    found.requeues["j"] = 1
    assert broken(found) == set()


def test_too_many_attempts_are_found():
    runs = [run(n, n + 0.5, "ExpectedError", attempt=n) for n in range(1, 5)]
    found = broken(evidence(*runs, rows=[DEAD]))
    assert found == {"attempts_are_within_max_attempts", "starts_are_within_max_attempts"}


def test_a_run_without_an_end_needs_a_kill():
    assert broken(evidence(run(9), rows=[DEAD])) == {"every_start_has_an_end"}
    assert broken(evidence(run(9), rows=[DEAD], faults=[KILL])) == set()


def test_outcomes_that_do_not_fit_the_runs_are_found():
    assert broken(evidence(run(1, 2, "ExpectedError"))) == {"done_jobs_have_succeeded"}
    cancelled = DONE._replace(status="cancelled")
    assert broken(evidence(rows=[cancelled])) == {"cancelled_jobs_were_cancelled"}
    early = DEAD._replace(attempts=1)
    assert broken(evidence(run(1, 2, "ExpectedError"), rows=[early])) == {"dead_jobs_have_used_their_attempts"}


@pytest.mark.parametrize(
    ("error", "at", "fine"),
    [("OperationalError", 10.5, True), ("OperationalError", 30, False), ("IntegrityError", 10.5, False)],
)
def test_only_lost_connections_may_be_shown(error, at, fine):
    found = evidence(run(1, 2), faults=[OUTAGE])
    found.raised.append(Raised("producer", at, "quick", ["k"], error, ""))
    assert broken(found) == (set() if fine else {"errors_are_lost_connections"})


def test_a_deadlock_is_no_lost_connection():
    found = evidence(run(1, 2), faults=[OUTAGE])
    found.raised.append(Raised("producer", 10.5, "quick", ["k"], "OperationalError", "deadlock detected"))
    assert broken(found) == {"errors_are_lost_connections"}


def test_runs_beyond_a_limit_are_found():
    found = evidence(run(1, 2))
    for job in "xyz":
        found.runs[job] = [run(1, 2, key="soak:1")]
    assert "limits_are_kept" in broken(found)
    found.runs["z"] = [run(2.5, 3, key="soak:1")]
    assert "limits_are_kept" not in broken(found)


def test_the_last_line_of_a_killed_process_may_be_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(ledger.FOLDER, str(tmp_path))
    written = ledger.Ledger("runs")
    written.write("start", "j", 1, "")
    written.write("end", "j", 1, "")
    os.write(written.file, b'[12.5, 7, "sta')
    os.close(written.file)
    found = Evidence([])
    read_runs(found, tmp_path)
    assert [one.succeeded for one in found.runs["j"]] == [True]
