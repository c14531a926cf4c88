"""What a verdict means for a job: attempts, delays, errors, its place."""

from __future__ import annotations

from tests.mutations.variant import SQLITE, Variant

PRIORITY = "lifecycle/test_promote.py::test_a_job_keeps_its_priority_through_a_retry_and_its_promotion"
CRASHES = "lifecycle/test_reap.py::test_a_crash_counts_against_blamed_jobs_until_an_attempt_ends_by_itself"

VARIANTS = [
    Variant(
        "one attempt more than max_attempts",
        "lifecycle/outcome.py",
        "or attempts >= max_attempts",
        "or attempts > max_attempts",
        "lifecycle/test_settle.py::test_nack_at_the_last_attempt_is_death",
    ),
    Variant(
        "one attempt less than max_attempts",
        "lifecycle/outcome.py",
        "or attempts >= max_attempts",
        "or attempts + 1 >= max_attempts",
        "lifecycle/test_settle.py::test_nack_at_the_last_attempt_is_death",
    ),
    Variant(
        "NoRetry is retried",
        "lifecycle/outcome.py",
        "isinstance(policy, NoRetry) or ",
        "",
        "lifecycle/test_settle.py::test_no_retry_wins_over_max_attempts",
    ),
    Variant(
        "a snooze spends an attempt",
        "lifecycle/outcome.py",
        "spent=outcome is Outcome.RETRYING,",
        "spent=outcome in (Outcome.RETRYING, Outcome.SNOOZED),",
        "lifecycle/test_settle.py::test_snooze_spends_no_attempt",
    ),
    Variant(
        "a release spends an attempt",
        "lifecycle/outcome.py",
        "spent=outcome is Outcome.RETRYING,",
        "spent=outcome in (Outcome.RETRYING, Outcome.RELEASED),",
        "lifecycle/test_settle.py::test_release_gives_back_at_once_without_an_attempt",
    ),
    Variant(
        "a job that should be cancelled is retried",
        "lifecycle/outcome.py",
        "cancellable=verdict is Verdict.NACK,",
        "cancellable=False,",
        "lifecycle/test_settle.py::test_a_nack_of_a_job_that_should_be_cancelled_ends_as_cancelled",
    ),
    Variant(
        "an attempt of an unknown task is spent",
        "lifecycle/unknown_tasks.py",
        "return settle.snooze(job, min(max(age, FIRST), LAST), unknown=True)",
        "return settle.nack(job, NO_TASK, delay=min(max(age, FIRST), LAST))",
        "worker/process/test_worker.py::test_an_unknown_task_is_put_back_and_then_dies",
    ),
    Variant(
        "jobs of unknown tasks die without a grace period",
        "lifecycle/unknown_tasks.py",
        "if age >= config().unknown_task_grace:",
        "if age >= 0:",
        "worker/process/test_worker.py::test_an_unknown_task_is_put_back_and_then_dies",
    ),
    Variant(
        "jobs past their grace period are put back for ever",
        "sql/postgresql/control.py",
        "AND (j.unknown_since IS NULL OR j.unknown_since >",
        "AND (true OR j.unknown_since >",
        "lifecycle/test_unknown_tasks.py",
    ),
    Variant(
        "the errors of a job grow without a bound",
        "sql/postgresql/settle.py",
        'errors = newest("j.errors", "h.entry", MAX_ERRORS, r"E\'\\n\'")',
        'errors = "j.errors || h.entry"',
        "lifecycle/test_settle.py::test_the_error_history_of_a_job_is_bounded",
    ),
    Variant(
        "the errors of a job that is retried grow without a bound on SQLite",
        "sql/portable.py",
        'self.newest_sql(self.concat_sql("errors", new("errors")), "\\n", MAX_ERRORS)',
        'self.concat_sql("errors", new("errors"))',
        "lifecycle/test_settle.py::test_the_error_history_of_a_job_is_bounded",
        SQLITE,
    ),
    Variant(
        "the errors of a job that dies grow without a bound on SQLite",
        "sql/rows.py",
        'self.newest_sql(self.concat_sql("j.errors", "v.entry"), "\\n", MAX_ERRORS)',
        'self.concat_sql("j.errors", "v.entry")',
        "lifecycle/test_settle.py",
        SQLITE,
    ),
    Variant(
        "the priority is lost at a nack",
        "sql/postgresql/settle.py",
        "            token = NULL,\n",
        "            token = NULL, priority = 0,\n",
        PRIORITY,
    ),
    Variant(
        "the place in the queue is lost at a nack",
        "sql/postgresql/settle.py",
        "            token = NULL,\n",
        "            token = NULL, enqueued_at = statement_timestamp(),\n",
        "lifecycle/test_claim.py::test_a_retry_keeps_its_priority_and_its_place",
    ),
    Variant(
        "the priority is lost at a nack on SQLite",
        "sql/portable.py",
        'changes |= {"token": "NULL",',
        'changes |= {"priority": "0", "token": "NULL",',
        PRIORITY,
        SQLITE,
    ),
    Variant(
        "a blamed job is retried without a delay",
        "lifecycle/crash.py",
        "back_off=True",
        "back_off=False",
        "lifecycle/test_reap.py::test_the_back_off_of_a_job_whose_process_was_killed_grows_with_its_attempts",
    ),
    Variant(
        "held jobs are blamed for a crash",
        "lifecycle/crash.py",
        "    if one.blamed:\n",
        "    if True:\n",
        "lifecycle/test_reap.py::test_the_back_off_of_a_job_whose_process_was_killed_grows_with_its_attempts",
    ),
    Variant(
        "a crash is not counted",
        "lifecycle/crash.py",
        "back_off=True, crashed=crashed)",
        "back_off=True, crashed=False)",
        CRASHES,
    ),
    Variant(
        "an earlier crash is never forgiven",
        "lifecycle/outcome.py",
        "forgiven=verdict in (Verdict.NACK, Verdict.SNOOZE) and not crashed and not unknown,",
        "forgiven=False,",
        CRASHES,
    ),
    Variant(
        "a result that cannot be stored fails the job",
        "lifecycle/settle.py",
        "            text = _marker(job, result, problem)",
        "            raise",
        "lifecycle/test_settle.py::test_a_result_that_cannot_be_stored_is_replaced_by_a_marker",
    ),
    Variant(
        "sweeps take done jobs that are too young",
        "lifecycle/sweep.py",
        "completed_at__lt=_cutoff(now, age)",
        "completed_at__lt=now",
        "lifecycle/test_sweep.py::test_sweep_done_takes_what_completed_longer_ago",
    ),
    Variant(
        "sweeps take dead jobs that are too young",
        "lifecycle/sweep.py",
        "failed_at__lt=_cutoff(database.now(), age)",
        "failed_at__lt=database.now()",
        "lifecycle/test_sweep.py::test_sweep_dead_goes_by_the_time_of_death_and_the_count_follows "
        "lifecycle/test_sweep.py::test_sweeps_follow_the_settings",
    ),
    Variant(
        "sweeps take KV entries that have not expired",
        "lifecycle/sweep.py",
        "filter(expires_at__lte=database.now())",
        "filter(expires_at__isnull=False)",
        "test_kv.py::test_an_expired_key_is_missing",
    ),
    Variant(
        "sweeps wait for locked rows",
        "lifecycle/sweep.py",
        "rows.select_for_update(skip_locked=True)",
        "rows.select_for_update()",
        "lifecycle/test_sweep.py::test_a_sweep_skips_locked_rows",
    ),
]
