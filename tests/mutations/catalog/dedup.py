"""Dedup hits that are not locked, keys that are kept, ids that are used twice."""

from __future__ import annotations

from tests.mutations.variant import MYSQL, SQLITE, Variant

OWN_ID_LOCKED = (
    "lifecycle/test_dedup.py::test_a_dedup_hit_with_an_own_id_keeps_the_job_unclaimed_until_the_transaction_ends"
)
NO_KV = "lifecycle/test_dedup.py::test_a_dedup_hit_with_an_own_id_writes_no_kv"
TAKEN = "lifecycle/test_enqueue.py::test_own_id_in_use_is_refused_and_leaves_the_transaction_usable"

_INSERT = '            found = self.own(lambda: self._insert(jobs, kv, enqueue.LOCK_HIT if keyed else ""))\n'

VARIANTS = [
    Variant(
        "a dedup hit is not locked",
        "sql/postgresql/statements.py",
        _INSERT,
        _INSERT.replace("LOCK_HIT", "SKIP_TAKEN")
        + """            for job in jobs:
                if job.id not in found:
                    sql = f"SELECT {RETURNED_BY_INSERT} FROM djqueue_job WHERE queue = %s AND dedup_key = %s"
                    found |= self.inserted([job], self.fetch(sql, [job.queue, job.dedup_key]))
""",
        "lifecycle/test_dedup.py::test_a_dedup_hit_keeps_the_job_unclaimed_until_the_transaction_ends",
    ),
    Variant(
        "a dedup hit with an own id is not locked",
        "sql/postgresql/enqueue.py",
        "ORDER BY id FOR UPDATE\n",
        "ORDER BY id\n",
        OWN_ID_LOCKED,
    ),
    Variant(
        "a dedup hit with an own id is not locked on MariaDB",
        "sql/portable.py",
        "AND dedup_key = %s {self.lock_sql}",
        "AND dedup_key = %s",
        OWN_ID_LOCKED,
        MYSQL,
    ),
    Variant(
        "a dedup hit writes its kv",
        "sql/postgresql/enqueue.py",
        "WHERE (SELECT id FROM new) = %s::uuid",
        "WHERE %s::uuid IS NOT NULL",
        "lifecycle/test_enqueue.py::test_kv_is_written_with_the_job lifecycle/test_dedup.py",
    ),
    Variant(
        "a dedup hit with an own id writes its kv",
        "sql/postgresql/statements.py",
        "if kv and found[jobs[0].id].created:",
        "if kv:",
        NO_KV,
    ),
    Variant(
        "a dedup hit writes its kv on SQLite",
        "sql/portable.py",
        "if kv and found[jobs[0].id].created:",
        "if kv:",
        NO_KV,
        SQLITE,
    ),
    Variant(
        "the id of a job in the history is used again",
        "sql/postgresql/statements.py",
        'wanted = {"djqueue_job": live, "djqueue_donejob": kept, "djqueue_deadjob": kept}',
        'wanted = {"djqueue_job": live}',
        TAKEN,
    ),
    Variant(
        "the id of a job in the history is used again on SQLite",
        "sql/portable.py",
        'if self._has("djqueue_donejob", job.id) or self._has("djqueue_deadjob", job.id):',
        "if False:",
        TAKEN,
        SQLITE,
    ),
    Variant(
        "one id may be twice in a batch",
        "lifecycle/enqueue.py",
        "        if job.id in ids:\n",
        "        if False:\n",
        "lifecycle/test_enqueue_many.py::test_one_own_id_twice_in_a_batch_is_refused",
    ),
    Variant(
        "a claim keeps the dedup key",
        "sql/postgresql/claim.py",
        "dedup_key = CASE WHEN j.dedup_until = 'done' THEN j.dedup_key END",
        "dedup_key = j.dedup_key",
        "lifecycle/test_dedup.py::test_the_claim_releases_the_key",
    ),
    Variant(
        "a claim releases a key that is held until the job is done",
        "sql/postgresql/claim.py",
        "dedup_key = CASE WHEN j.dedup_until = 'done' THEN j.dedup_key END",
        "dedup_key = NULL",
        "lifecycle/test_dedup.py::test_until_done_the_key_is_held_through_running_and_retries",
    ),
    Variant(
        "a requeue keeps the dedup key",
        "sql/columns.py",
        "progress cancel_requested dedup_key crashes slot",
        "progress cancel_requested crashes slot",
        "lifecycle/test_requeue.py::test_a_requeued_job_does_not_hold_its_former_dedup_key",
    ),
    Variant(
        "a running job is changed by a call that replaces it",
        "lifecycle/debounce.py",
        "if row.status == Status.CLAIMED.value or row.task != job.task:",
        "if row.task != job.task:",
        "lifecycle/test_debounce.py::test_a_claimed_job_is_not_changed",
    ),
]
