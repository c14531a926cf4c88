"""The reaper acts on what it read before, or on jobs that it may not touch."""

from __future__ import annotations

from tests.mutations.variant import MYSQL, SQLITE, Variant

RENEWED = "lifecycle/test_reap.py::test_a_lease_renewed_after_the_reaper_read_it_is_left_alone"
BEGAN = "sql/test_same_rows_everywhere.py::test_a_job_that_began_after_the_reaper_read_it_is_not_returned"
RETURNED = "lifecycle/test_reap.py::test_a_job_that_never_started_gets_its_attempt_back_three_times"

VARIANTS = [
    Variant(
        "the reaper does not check the expiry again",
        "sql/postgresql/settle.py",
        '"AND lease_expires_at <= %s::timestamptz AND NOT',
        '"AND %s::timestamptz IS NOT NULL AND NOT',
        RENEWED,
    ),
    Variant(
        "the reaper does not check again whether the job has started",
        "sql/postgresql/settle.py",
        " AND NOT (started AND g.returned)",
        "",
        BEGAN,
    ),
    Variant(
        "the reaper does not check the expiry again on SQLite",
        "sql/portable.py",
        "expired = row.lease_expires_at is not None and row.lease_expires_at <= expired_at",
        "expired = True",
        RENEWED,
        SQLITE,
    ),
    Variant(
        "the reaper does not check the expiry again on MariaDB",
        "sql/portable.py",
        "expired = row.lease_expires_at is not None and row.lease_expires_at <= expired_at",
        "expired = True",
        RENEWED,
        MYSQL,
    ),
    Variant(
        "the reaper does not check again whether the job has started on SQLite",
        "sql/portable.py",
        "return expired and not (item.returned and row.started)",
        "return expired",
        BEGAN,
        SQLITE,
    ),
    Variant(
        "the reaper waits for locked rows",
        "lifecycle/reap.py",
        "expired_at=now, wait=False)",
        "expired_at=now)",
        "lifecycle/test_reap.py::test_locked_rows_do_not_hold_up_the_others",
    ),
    Variant(
        "the reaper takes leases that have not expired",
        "lifecycle/reap.py",
        "    now = database.now()\n",
        "    now = database.now() + __import__('datetime').timedelta(minutes=1)\n",
        "lifecycle/test_reap.py::test_live_leases_and_settled_jobs_are_left_alone",
    ),
    Variant(
        "the reaper acts although it may not",
        "lifecycle/reap.py",
        "if not rows or not may_act():",
        "if not rows:",
        "lifecycle/test_reap.py::test_a_reap_that_may_not_act_changes_nothing",
    ),
    Variant(
        "a job that never starts gets its attempt back for ever",
        "lifecycle/outcome.py",
        "return not row.started and row.returns < MAX_RETURNS",
        "return not row.started",
        RETURNED,
    ),
    Variant(
        "a job that had started gets its attempt back from the reaper",
        "lifecycle/outcome.py",
        "return not row.started and row.returns < MAX_RETURNS",
        "return row.returns < MAX_RETURNS",
        "lifecycle/test_reap.py::test_a_job_whose_lease_expired_is_pending_at_once",
    ),
]
