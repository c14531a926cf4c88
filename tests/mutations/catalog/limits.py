"""Limits: permits that are counted wrongly, given without the lock, or lost."""

from __future__ import annotations

from tests.mutations.variant import SQLITE, Variant

NO_MORE = "lifecycle/test_limits.py::test_no_more_jobs_than_permits_are_admitted"
BURST = "lifecycle/test_limits.py::test_a_rate_admits_a_burst_and_then_as_time_passes"
COUNTED = (
    "lifecycle/test_limits_races.py::test_an_admission_that_waited_for_the_lock_counts_what_was_committed_meanwhile"
)
NOTIFIES = "waiting/test_notify.py::test_what_concerns_a_limit_notifies"
HELD = "lifecycle/test_limits.py::test_a_held_key_admits_nothing_until_it_is_released"

VARIANTS = [
    Variant(
        "an admission does not lock the key",
        "lifecycle/admit.py",
        "locked = limits.lock(database, list(tasks), patiently=patiently)",
        "locked = limits.read(database, list(tasks))",
        "lifecycle/test_limits_races.py",
    ),
    Variant(
        "an admission does not count after the lock",
        "sql/postgresql/limits.py",
        "SELECT count(*) AS admitted, count(*) FILTER",
        "SELECT 0::int8 AS admitted, count(*) FILTER",
        COUNTED,
    ),
    Variant(
        "an admission does not count after the lock on SQLite",
        "sql/portable.py",
        "Permits(*map(int, self.fetch(count, [ask.key])[0]))",
        "Permits(0, 0)",
        "lifecycle/test_limits.py::test_a_permit_that_comes_back_admits_one_job",
        SQLITE,
    ),
    Variant(
        "running jobs hold no permit",
        "sql/limits.py",
        "ADMITTED = \"status IN ('pending', 'claimed')\"",
        "ADMITTED = \"status = 'pending'\"",
        "lifecycle/test_limits.py::test_a_settled_job_hands_its_permit_on "
        "lifecycle/test_limits.py::test_no_more_jobs_than_permits_are_admitted",
    ),
    Variant(
        "the rate is ignored",
        "lifecycle/allowance.py",
        "most = min(most, burst - row.pending, math.floor(burst - used_for(row) * numbers.rate + EXACT))",
        "most = min(most, burst - row.pending)",
        BURST,
    ),
    Variant(
        "the burst is ignored",
        "lifecycle/allowance.py",
        "            burst = numbers.burst or 1\n            # Jobs",
        "            burst = 1000\n            # Jobs",
        BURST,
    ),
    Variant(
        "admitted jobs are not paid for",
        "lifecycle/admit.py",
        "    limits.spend(database, spent)\n",
        "",
        BURST,
    ),
    Variant(
        "a hold is ignored",
        "lifecycle/allowance.py",
        "if numbers is None or (row.held_until is not None and row.held_until > row.now):",
        "if numbers is None:",
        HELD,
    ),
    Variant(
        "a hold does not take permits back",
        "lifecycle/limits.py",
        "    give_back(database, limits.jobs_of(database, key))\n    database.wake_limits([key])  # a",
        "    database.wake_limits([key])  # a",
        "lifecycle/test_limits.py",
    ),
    Variant(
        "a hold is shortened by another",
        "lifecycle/limits.py",
        "rows.filter(Q(held_until=None) | Q(held_until__lt=until)).update(held_until=until)",
        "rows.update(held_until=until)",
        "lifecycle/test_limits.py",
    ),
    Variant(
        "a throttled job does not hold its key",
        "lifecycle/settle.py",
        "    while _hold_keys(database, [settlement]):\n        continue\n",
        "",
        "lifecycle/test_limits.py::test_throttled_gives_the_attempt_back_and_holds_the_key",
    ),
    Variant(
        "the permit of a settled job is not handed on",
        "lifecycle/settle.py",
        "    hand_on([settlement.limit_key])\n",
        "",
        "lifecycle/test_limits.py::test_a_settled_job_hands_its_permit_on",
    ),
    Variant(
        "the permit of a reaped job is not handed on",
        "lifecycle/reap.py",
        "        hand_on([row.limit_key for row in rows])\n",
        "        pass\n",
        "lifecycle/test_limits.py",
    ),
    Variant(
        "the permit of a crashed job is not handed on",
        "lifecycle/crash.py",
        "    hand_on([row.limit_key for _, row in held])\n",
        "",
        "lifecycle/test_limits.py::test_a_job_whose_process_was_killed_hands_its_permit_on",
    ),
    Variant(
        "a promoted job is not admitted",
        "lifecycle/promote.py",
        "        hand_on(keys)\n",
        "",
        "lifecycle/test_limits.py::test_a_promoted_job_is_admitted_if_there_is_a_permit",
    ),
    Variant(
        "a worker does not hand permits on",
        "worker/process/completer.py",
        "        self._hand_on(ended)\n",
        "",
        "worker/process/test_worker.py::test_a_worker_hands_the_permits_of_its_jobs_on",
    ),
    Variant(
        "settling in a transaction does not wake the supervisors",
        "lifecycle/admit.py",
        "        database.wake_limits(freed)\n        return 0\n",
        "        return 0\n",
        NOTIFIES,
    ),
    Variant(
        "a cancelled job does not wake the supervisors",
        "lifecycle/cancel.py",
        "        database.wake_limits(keys)\n",
        "        pass\n",
        NOTIFIES,
    ),
    Variant(
        "jobs of a paused queue keep their permits",
        "lifecycle/pause.py",
        "freed = give_back(database, Job.objects.using(database.alias).filter(queue=queue))",
        "freed = set[str]()",
        "lifecycle/test_limits.py::test_pausing_a_queue_gives_the_permits_of_its_unclaimed_jobs_back",
    ),
    Variant(
        "jobs of an unknown task are admitted",
        "lifecycle/allowance.py",
        "return row.override if row.override.concurrency is not None and row.override.rate is not None else None",
        "return row.override",
        "lifecycle/test_limits.py::test_an_unknown_task_is_not_admitted",
    ),
    Variant(
        "a better job does not overtake",
        "lifecycle/allowance.py",
        "        if not row.overtakes:\n            return False\n",
        "        return False\n",
        "lifecycle/test_limits.py::test_a_better_job_overtakes_an_admitted_one_that_is_not_claimed",
    ),
]
