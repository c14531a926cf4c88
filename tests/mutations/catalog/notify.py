"""Transitions that do not send their NOTIFY."""

from __future__ import annotations

from tests.mutations.variant import Variant

SETTLED = "waiting/test_notify.py::test_settling_a_job_notifies"
WAITING = "waiting/test_notify.py::test_making_jobs_wait_or_end_notifies"

_ELSE = 'ELSE pg_notify(\'{channels.PENDING}\', queue) END"""'


def only_if(condition: str) -> str:
    return _ELSE.replace("ELSE", f"WHEN {condition} THEN")


VARIANTS = [
    Variant(
        "enqueue without NOTIFY",
        "sql/postgresql/enqueue.py",
        "RETURNING date_part('epoch', j.enqueued_at) {wake if notify else \"\"}",
        "RETURNING date_part('epoch', j.enqueued_at)",
        WAITING,
    ),
    Variant(
        "enqueue after a slow one without NOTIFY",
        "sql/postgresql/statements.py",
        "notices.of_databases[self.alias].send(notice, self._notify)",
        "pass",
        WAITING,
    ),
    Variant(
        "limited enqueue after a slow one notifies as a plain one",
        "sql/postgresql/statements.py",
        "self._notify_after_commit(job, enqueue.wakeup(job, status))",
        "self._notify_after_commit(job, enqueue.wakeup(job, Status.PENDING))",
        "waiting/test_notify.py::test_what_concerns_a_limit_notifies",
    ),
    Variant(
        "slow enqueue in a transaction notifies apart from it",
        "sql/postgresql/statements.py",
        "self.notify and PostgreSQL.slow_inserts >= MANY_SLOW and not self.in_caller_transaction()",
        "self.notify and PostgreSQL.slow_inserts >= MANY_SLOW",
        "sql/test_postgresql.py::test_in_a_transaction_the_notification_is_part_of_it",
    ),
    Variant(
        "error of a notification after the commit is raised",
        "sql/postgresql/statements.py",
        'except (DatabaseError, InterfaceError):\n            logger.warning("notification failed',
        'except ZeroDivisionError:\n            logger.warning("notification failed',
        "sql/test_postgresql.py::test_an_enqueue_whose_notification_fails_after_the_commit_has_stored_the_job",
    ),
    Variant(
        "notice counts as sent by a statement that began before it",
        "sql/postgresql/notices.py",
        "            self.last.ended.wait(PATIENCE)\n        finally:\n            with self.lock:\n"
        "                self.last, self.open = group, _Group()\n        try:\n            send(group.notices)\n",
        "            self.last.ended.wait(PATIENCE)\n            send(group.notices)\n        finally:\n"
        "            with self.lock:\n                self.last, self.open = group, _Group()\n"
        "        try:\n            pass\n",
        "sql/test_notices.py::test_when_a_call_returns_its_notice_was_sent_after_it_began",
    ),
    Variant(
        "dedup hit and delayed enqueue without NOTIFY",
        "sql/postgresql/statements.py",
        "RETURNING {RETURNED_BY_INSERT} {self._wake_for_waiting()}",
        "RETURNING {RETURNED_BY_INSERT}",
        WAITING,
    ),
    Variant(
        "dedup hit with an own id without NOTIFY",
        "sql/postgresql/statements.py",
        "enqueue.lock_keys_sql(self._wake_for_waiting())",
        'enqueue.lock_keys_sql("")',
        WAITING,
    ),
    Variant(
        "enqueue of a large batch without NOTIFY",
        "sql/postgresql/statements.py",
        "        if self.notify:\n            self._notify(wakeups)",
        "        if False:\n            self._notify(wakeups)",
        WAITING,
    ),
    Variant(
        "retry at once without NOTIFY",
        "sql/postgresql/settle.py",
        _ELSE,
        only_if("outcome <> 'retrying'"),
        SETTLED,
    ),
    Variant("release without NOTIFY", "sql/postgresql/settle.py", _ELSE, only_if("outcome <> 'released'"), SETTLED),
    Variant(
        "snooze of zero without NOTIFY", "sql/postgresql/settle.py", _ELSE, only_if("outcome <> 'snoozed'"), SETTLED
    ),
    Variant(
        "reap without NOTIFY",
        "sql/postgresql/settle.py",
        'wake = f""", CASE\n',
        'wake = f""", CASE WHEN {reaping} THEN NULL\n',
        SETTLED,
    ),
    Variant(
        "delayed retry without NOTIFY",
        "sql/postgresql/settle.py",
        "WHEN delay > 0 THEN pg_notify('{channels.SCHEDULED}', '')",
        "WHEN delay > 0 THEN NULL",
        SETTLED,
    ),
    Variant(
        "end of a job without NOTIFY",
        "sql/postgresql/settle.py",
        "WHEN {ended} THEN pg_notify('{channels.ENDED}', '')",
        "WHEN {ended} THEN NULL",
        SETTLED,
    ),
    Variant(
        "ack of a group without NOTIFY",
        "sql/postgresql/settle.py",
        "wake = f\", pg_notify('{channels.ENDED}', '')\" if notify else \"\"",
        'wake = ""',
        SETTLED,
    ),
    Variant(
        "promotion without NOTIFY",
        "sql/postgresql/statements.py",
        "RETURNING j.limit_key {self._wake_for_waiting()}",
        "RETURNING j.limit_key",
        WAITING,
    ),
    Variant(
        "put-back of unknown tasks without NOTIFY",
        "sql/postgresql/statements.py",
        "            self.wake_scheduler()\n            self.wake_limits()\n",
        "            self.wake_limits()\n",
        WAITING,
    ),
    Variant("resume without NOTIFY", "lifecycle/pause.py", "        database.wake(queue)\n", "", WAITING),
    Variant(
        "cancel without NOTIFY",
        "sql/postgresql/control.py",
        "wake = f\", pg_notify('{channels.ENDED}', '')\"",
        'wake = ", NULL::void"',
        WAITING,
    ),
    Variant(
        "requeue without NOTIFY",
        "sql/postgresql/statements.py",
        "{control.REQUEUE} {self._wake_for_waiting()}",
        "{control.REQUEUE}",
        WAITING,
    ),
    Variant(
        "reschedule without NOTIFY",
        "sql/postgresql/statements.py",
        "{control.RESCHEDULE} {self._wake_for_waiting()}",
        "{control.RESCHEDULE}",
        WAITING,
    ),
    Variant(
        "call that replaces a waiting job without NOTIFY",
        "lifecycle/debounce.py",
        "        database.wake(row.queue)\n",
        "        pass\n",
        "waiting/test_notify.py::test_a_call_that_makes_a_waiting_job_due_notifies",
    ),
    Variant(
        "admission without NOTIFY",
        "sql/postgresql/limits.py",
        'wake = WAKE_FOR_PENDING if notify else ""',
        'wake = ", NULL::void" if notify else ""',
        "waiting/test_notify.py::test_what_concerns_a_limit_notifies",
    ),
    Variant(
        "enqueue of a limited job without NOTIFY",
        "sql/postgresql/enqueue.py",
        '("blocked", WAKE_FOR_BLOCKED) if',
        '("blocked", "") if',
        "waiting/test_notify.py::test_what_concerns_a_limit_notifies",
    ),
]
