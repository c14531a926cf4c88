"""Cancel, requeue, reschedule, wait: acts on jobs that they may not touch."""

from __future__ import annotations

from tests.mutations.variant import SQLITE, Variant

CLAIMED = "lifecycle/test_cancel.py::test_a_cancel_of_a_claimed_job_is_a_request_also_when_repeated"
REVIVED = "lifecycle/test_requeue.py::test_a_dead_job_whose_id_is_live_again_is_not_requeued"
HELD = "lifecycle/test_requeue.py::test_reschedule_does_not_change_jobs_that_are_not_waiting"

VARIANTS = [
    Variant(
        "a cancel removes running jobs",
        "sql/postgresql/control.py",
        "{listed(\"locked WHERE status <> 'claimed'\")}",
        '{listed("locked")}',
        CLAIMED,
    ),
    Variant(
        "a cancel removes running jobs on SQLite",
        "sql/portable.py",
        "gone = [record for record in found if record.status != Status.CLAIMED]",
        "gone = found",
        CLAIMED,
        SQLITE,
    ),
    Variant(
        "a cancel does not lock what it reads",
        "sql/postgresql/control.py",
        "SELECT id, status FROM djqueue_job WHERE id = ANY(%s::uuid[]) ORDER BY id FOR UPDATE",
        "SELECT id, status FROM djqueue_job WHERE id = ANY(%s::uuid[]) ORDER BY id",
        "lifecycle/test_cancel.py::test_a_cancel_during_an_uncommitted_claim_becomes_a_request",
    ),
    Variant(
        "a requeue replaces a live job",
        "sql/postgresql/control.py",
        " WHERE id NOT IN (SELECT id FROM live)",
        "",
        REVIVED,
    ),
    Variant(
        "a requeue replaces a live job on SQLite",
        "sql/portable.py",
        " - {self.uuid(row[0]) for row in live}",
        "",
        REVIVED,
        SQLITE,
    ),
    Variant(
        "a requeued job keeps its attempts",
        "sql/columns.py",
        "args kwargs errors run_at attempts started_at",
        "args kwargs errors run_at started_at",
        "lifecycle/test_requeue.py::test_a_requeued_job_is_pending_under_its_id",
    ),
    Variant(
        "a requeued job keeps its cancel request",
        "sql/columns.py",
        "progress cancel_requested dedup_key",
        "progress dedup_key",
        "lifecycle/test_requeue.py",
    ),
    Variant(
        "a reschedule changes running jobs",
        "sql/postgresql/control.py",
        " AND status <> 'claimed' ORDER BY id FOR UPDATE",
        " ORDER BY id FOR UPDATE",
        HELD,
    ),
    Variant(
        "a reschedule changes running jobs on SQLite",
        "sql/portable.py",
        "waiting = [row[0] for row in rows if row[1] != Status.CLAIMED.value]",
        "waiting = [row[0] for row in rows]",
        HELD,
        SQLITE,
    ),
    Variant(
        "a wait ends at a retry",
        "waiting/listener.py",
        "if record is not None and record.status in TERMINAL:",
        'if record is not None and (record.status in TERMINAL or record.status == "scheduled"):',
        "waiting/test_wait.py::test_a_retry_that_is_scheduled_does_not_end_the_wait",
    ),
    Variant(
        "a wait inside a transaction is not refused",
        "waiting/wait.py",
        "    if not database.in_caller_transaction():\n        return None\n",
        "    return None\n",
        "waiting/test_wait.py::test_waiting_inside_a_transaction_is_refused_unless_the_job_ended",
    ),
]
