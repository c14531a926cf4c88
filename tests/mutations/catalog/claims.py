"""What a claim takes, in which order, and for how long; promotion."""

from __future__ import annotations

from tests.mutations.variant import MYSQL, SQLITE, Variant

PAUSED = "lifecycle/test_claim.py::test_no_job_of_a_paused_queue_is_claimed"
ISOLATED = "lifecycle/test_claim.py::test_queues_are_isolated"
ORDER = "lifecycle/test_claim.py::test_lower_priority_runs_first_and_enqueue_order_within_one"
SKEWED = "lifecycle/test_claim.py::test_neither_a_skewed_producer_nor_an_own_id_jumps_the_queue"
SKIPS = "lifecycle/test_claim.py::test_a_claim_skips_rows_that_another_transaction_has_locked"
FIRST = "lifecycle/test_claim.py::test_a_claim_takes_the_job_under_a_lease"
LOCKED_DUE = "lifecycle/test_promote.py::test_a_due_job_that_is_locked_does_not_hold_up_the_others"

VARIANTS = [
    Variant(
        "a claim counts no attempt",
        "sql/postgresql/claim.py",
        "attempts = j.attempts + 1,",
        "attempts = j.attempts,",
        FIRST,
    ),
    Variant(
        "a claim counts no attempt on SQLite",
        "sql/sqlite.py",
        "attempts = attempts + 1,",
        "attempts = attempts,",
        FIRST,
        SQLITE,
    ),
    Variant(
        "jobs of a paused queue are claimed",
        "sql/postgresql/claim.py",
        "s.queue = w.queue AND s.paused)",
        "s.queue = w.queue AND s.paused AND false)",
        PAUSED,
    ),
    Variant(
        "jobs of a paused queue are claimed on SQLite", "sql/sqlite.py", "AND s.paused)", "AND false)", PAUSED, SQLITE
    ),
    Variant(
        "jobs of other queues are claimed",
        "sql/postgresql/claim.py",
        "WHERE status = 'pending' AND queue = a.queue\n",
        "WHERE status = 'pending'\n",
        ISOLATED,
    ),
    Variant(
        "jobs of other queues are claimed on SQLite",
        "sql/sqlite.py",
        "WHERE status = 'pending' AND queue = %s\n",
        "WHERE status = 'pending' AND %s <> ''\n",
        ISOLATED,
        SQLITE,
    ),
    Variant(
        "the highest priority number is claimed first",
        "sql/postgresql/claim.py",
        "            ORDER BY priority, enqueued_at, id\n            LIMIT a.n\n",
        "            ORDER BY priority DESC, enqueued_at, id\n            LIMIT a.n\n",
        ORDER,
    ),
    Variant(
        "the newest job is claimed first",
        "sql/postgresql/claim.py",
        "            ORDER BY priority, enqueued_at, id\n            LIMIT a.n\n",
        "            ORDER BY priority, enqueued_at DESC, id\n            LIMIT a.n\n",
        SKEWED,
    ),
    Variant(
        "jobs are claimed in the order of their ids",
        "sql/postgresql/claim.py",
        "            ORDER BY priority, enqueued_at, id\n            LIMIT a.n\n",
        "            ORDER BY priority, id\n            LIMIT a.n\n",
        SKEWED,
    ),
    Variant(
        "of jobs with the same time, the last id is claimed first",
        "sql/postgresql/claim.py",
        "            ORDER BY priority, enqueued_at, id\n            LIMIT a.n\n",
        "            ORDER BY priority, enqueued_at, id DESC\n            LIMIT a.n\n",
        "lifecycle/test_claim.py::test_claim_order_is_by_time_then_id",
    ),
    Variant(
        "the newest job is claimed first on SQLite",
        "sql/sqlite.py",
        'ORDER BY priority, enqueued_at, id LIMIT %s)"""',
        'ORDER BY priority, enqueued_at DESC, id LIMIT %s)"""',
        SKEWED,
        SQLITE,
    ),
    Variant(
        "a claim waits for locked rows",
        "sql/postgresql/claim.py",
        "            FOR UPDATE SKIP LOCKED\n        ) j\n",
        "            FOR UPDATE\n        ) j\n",
        SKIPS,
    ),
    Variant(
        "two claims take one job",
        "sql/postgresql/claim.py",
        "            FOR UPDATE SKIP LOCKED\n        ) j\n",
        "        ) j\n",
        "lifecycle/test_claim.py::test_two_claimers_never_get_one_job",
    ),
    Variant(
        "a claim waits for locked rows on MariaDB",
        "sql/mysql.py",
        'LIMIT %s FOR UPDATE SKIP LOCKED)"""',
        'LIMIT %s FOR UPDATE)"""',
        SKIPS,
        MYSQL,
    ),
    Variant(
        "a renewal does not extend the lease",
        "sql/postgresql/lease.py",
        "COALESCE(statement_timestamp() + h.lease * interval '1 second', j.lease_expires_at)",
        "j.lease_expires_at",
        "lifecycle/test_lease.py::test_renew_extends_the_lease_from_now",
    ),
    Variant(
        "a renewal extends the lease from its expiry",
        "sql/postgresql/lease.py",
        "COALESCE(statement_timestamp() + h.lease",
        "COALESCE(j.lease_expires_at + h.lease",
        "lifecycle/test_lease.py::test_renew_extends_the_lease_from_now",
    ),
    Variant(
        "a renewal does not extend the lease on SQLite",
        "sql/rows.py",
        "return row.lease_expires_at if seconds is None else now + timedelta(seconds=seconds)",
        "return row.lease_expires_at",
        "lifecycle/test_lease.py::test_renew_extends_the_lease_from_now",
        SQLITE,
    ),
    Variant(
        "a renewal waits for rows that others have locked",
        "sql/postgresql/lease.py",
        'SELECT g.* FROM {locked("id", wait=wait)}',
        'SELECT g.* FROM {locked("id", wait=True)}',
        "lifecycle/test_lease.py::test_a_locked_row_is_skipped_and_not_taken_for_lost",
    ),
    Variant(
        "jobs are promoted before they are due",
        "sql/postgresql/claim.py",
        "run_at <= statement_timestamp()\n            AND run_at >=",
        "run_at <= statement_timestamp() + interval '1 hour'\n            AND run_at >=",
        "lifecycle/test_promote.py::test_due_jobs_become_pending",
    ),
    Variant(
        "a promotion waits for locked rows",
        "sql/postgresql/claim.py",
        "        FOR UPDATE SKIP LOCKED\n    )\n    UPDATE djqueue_job j SET status = CASE",
        "        FOR UPDATE\n    )\n    UPDATE djqueue_job j SET status = CASE",
        LOCKED_DUE,
    ),
    Variant(
        "a promotion waits for locked rows on MariaDB",
        "sql/mysql.py",
        "ORDER BY run_at, id LIMIT %s FOR UPDATE SKIP LOCKED",
        "ORDER BY run_at, id LIMIT %s FOR UPDATE",
        LOCKED_DUE,
        MYSQL,
    ),
    Variant(
        "the priority is lost at a promotion",
        "sql/postgresql/claim.py",
        "UPDATE djqueue_job j SET status = CASE WHEN j.limit_key",
        "UPDATE djqueue_job j SET priority = 0, status = CASE WHEN j.limit_key",
        "lifecycle/test_promote.py::test_a_job_keeps_its_priority_through_a_retry_and_its_promotion",
    ),
    Variant(
        "all jobs of a claim are marked as started",
        "sql/postgresql/claim.py",
        "request.begin >= request.limit",
        "True",
        "lifecycle/test_claim.py::test_the_best_jobs_of_a_claim_are_marked_as_started",
    ),
    Variant(
        "a claim uses the lease of one queue for all",
        "core/records.py",
        "leases.pop() if len(leases) == 1 else None",
        "leases.pop()",
        "lifecycle/test_claim.py::test_different_leases_of_queues_in_one_claim",
    ),
    Variant(
        "a common lease overrides that of a job",
        "sql/postgresql/claim.py",
        "            j.lease,\n            %s::float8,\n",
        "            %s::float8,\n            j.lease,\n",
        "lifecycle/test_claim.py::test_a_lease_that_all_tasks_and_queues_share_is_that_of_jobs_without_their_own",
    ),
]
