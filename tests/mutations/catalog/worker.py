"""The worker: crashes, timeouts, cancel requests, what a task leaves behind."""

from __future__ import annotations

from tests.mutations.variant import Variant

OPEN = "worker/process/test_worker.py::test_the_next_job_on_the_thread_sees_no_transaction_that_was_left_open"
REACHES = "worker/process/test_worker.py::test_progress_and_cancel_reach_a_running_task"
INTERVAL = "worker/process/test_worker.py::test_the_reaper_runs_every_reaper_interval"
BLAMED = "worker/test_held_jobs.py::test_of_the_jobs_of_an_exited_process_only_those_that_may_be_the_cause_are_blamed"

VARIANTS = [
    Variant(
        "all jobs of a killed process are blamed",
        "worker/supervisor/crashes.py",
        "blamed = running if crashed else child.blamed",
        "blamed = frozenset(entry.claim[0] for entry in entries)",
        BLAMED,
    ),
    Variant(
        "no job of a killed process is blamed",
        "worker/supervisor/crashes.py",
        "blamed = running if crashed else child.blamed",
        "blamed = child.blamed",
        BLAMED,
    ),
    Variant(
        "jobs that ran beside one that was killed for its timeout are blamed",
        "worker/supervisor/crashes.py",
        "blamed = running if crashed else child.blamed",
        "blamed = running",
        BLAMED,
    ),
    Variant(
        "a job that met a crash runs beside others",
        "worker/process/claimer.py",
        "suspects = [holding for holding in holdings if holding.job.row.crashes]",
        "suspects = []",
        "worker/process/test_worker.py::test_a_job_that_met_a_crash_runs_alone",
    ),
    Variant(
        "a transaction that a task left open is kept",
        "worker/process/executor.py",
        "            drop(connection.alias)\n",
        "",
        OPEN,
    ),
    Variant(
        "a timeout is not disarmed",
        "worker/process/timeouts.py",
        "            self.deadline = None\n            passed",
        "            passed",
        "worker/process/test_timeouts.py",
    ),
    Variant(
        "a timeout that fired late is not taken back",
        "worker/process/timeouts.py",
        "                _inject(self.thread_id, None)\n",
        "                pass\n",
        "worker/process/test_timeouts.py::test_a_timeout_that_fired_and_was_not_yet_raised_is_taken_back",
    ),
    Variant(
        "a timeout does not fire",
        "worker/process/timeouts.py",
        "                _inject(self.thread_id, TaskTimeout)\n",
        "                pass\n",
        "worker/process/test_timeouts.py::test_a_timeout_is_raised_in_what_runs_too_long",
    ),
    Variant(
        "a cancel request is not passed on",
        "worker/supervisor/leases.py",
        "cancelled = [claim for claim, answer in found if answer.expires_at and answer.cancel_requested]",
        "cancelled: list[Claim] = []",
        REACHES,
    ),
    Variant(
        "a lost lease is not passed on",
        "worker/supervisor/leases.py",
        "lost = [claim for claim, answer in found if not answer.expires_at]",
        "lost: list[Claim] = []",
        "worker/process/test_worker.py::test_a_task_is_notified_that_its_job_was_reaped",
    ),
    Variant(
        "raise_if_cancelled ignores a lost lease",
        "current.py",
        "        if self._held.lost:\n",
        "        if False:\n",
        "worker/process/test_worker.py::test_a_task_is_notified_that_its_job_was_reaped",
    ),
    Variant(
        "the leases of running jobs are not renewed",
        "worker/supervisor/leases.py",
        "return now - self.renewed_at[entry.claim] >= entry.lease / 3",
        "return False",
        "worker/process/test_worker.py::test_the_lease_of_a_long_job_is_renewed",
    ),
    Variant(
        "REAPER_INTERVAL is ignored and the reaper runs all the time",
        "worker/supervisor/reaper.py",
        "config().reaper_interval)",
        "0.1)",
        INTERVAL,
    ),
    Variant(
        "REAPER_INTERVAL is ignored and the reaper runs rarely",
        "worker/supervisor/reaper.py",
        "config().reaper_interval)",
        "3600.0)",
        INTERVAL,
    ),
    Variant(
        "an outcome is reported twice",
        "worker/process/in_hand.py",
        "            if holding.reported:\n                return False\n",
        "",
        "worker/process/test_in_hand.py::test_an_outcome_is_reported_once_and_a_job_is_dropped_once",
    ),
    Variant(
        "a job runs without the mark that it has started",
        "worker/process/in_hand.py",
        "        if not holding.marked:\n            self.give_back([holding])\n            return False\n",
        "",
        "worker/process/test_in_hand.py::test_a_job_whose_lease_was_lost_before_it_starts_is_not_run",
    ),
    Variant(
        "a read-only server is not an outage",
        "worker/outages.py",
        '    if getattr(cause, "sqlstate", None) == _READ_ONLY:\n        return True\n',
        "",
        "worker/process/test_edges.py",
    ),
    Variant(
        "a process forked by a task uses the connections of its parent",
        "worker/os_process.py",
        "    _forks[0] += 1\n    forget_connections()\n",
        "    _forks[0] += 1\n",
        "faults/test_forks.py::test_parent_and_child_query_after_a_task_forks_with_open_connections",
    ),
    Variant(
        "a forked process closes the connections of other threads",
        "worker/os_process.py",
        "    _of_parent.append(list(_connected))\n",
        "    _of_parent.append([])\n",
        "worker/test_os_process.py::test_a_forked_process_leaves_the_connections_of_other_threads_open",
        databases=("mysql",),
    ),
]
