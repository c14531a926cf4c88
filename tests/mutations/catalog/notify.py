"""Transitions that do not send their NOTIFY."""

from __future__ import annotations

from tests.mutations.variant import Variant

SETTLED = "waiting/test_notify.py::test_settling_a_job_notifies"
WAITING = "waiting/test_notify.py::test_making_jobs_wait_or_end_notifies"
LOOKED_FOR = "sql/test_rushes.py::test_every_job_is_looked_for_soon_after_its_commit"
RUSH = "sql/test_rushes.py::test_a_listener_looks_until_the_end_of_a_rush"

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
        "enqueue in a rush without NOTIFY",
        "sql/postgresql/statements.py",
        "rush.notify(notice, self._send, slow=slow)",
        "pass",
        WAITING,
    ),
    Variant(
        "limited enqueue in a rush notifies as a plain one",
        "sql/postgresql/statements.py",
        "notice = enqueue.wakeup(job, status)",
        "notice = enqueue.wakeup(job, Status.PENDING)",
        "waiting/test_notify.py::test_what_concerns_a_limit_notifies",
    ),
    Variant(
        "enqueue of a rush in a transaction notifies apart from it",
        "sql/postgresql/statements.py",
        "self.notify and not self.in_caller_transaction() and rush.is_on",
        "self.notify and rush.is_on",
        "sql/test_postgresql.py::test_in_a_transaction_the_notification_is_part_of_it",
    ),
    Variant(
        "error of a notification after the commit is raised",
        "sql/postgresql/statements.py",
        "except (DatabaseError, InterfaceError):  # not raised",
        "except ZeroDivisionError:  # not raised",
        "sql/test_postgresql.py::test_an_enqueue_whose_notification_fails_after_the_commit_has_stored_the_job",
    ),
    Variant(
        "rush lasts from when its request has been sent",
        "sql/postgresql/rushes.py",
        "self.until = now + lasts",
        "self.until = time.monotonic() + lasts",
        LOOKED_FOR,
    ),
    Variant(
        "rush need only last until the job is sent to the database",
        "sql/postgresql/rushes.py",
        "        now = time.monotonic()\n        is_rush",
        "        now = self.enqueued[-1]\n        is_rush",
        LOOKED_FOR,
    ),
    Variant(
        "rush silences notifications though its request failed",
        "sql/postgresql/rushes.py",
        "        send(rush_request(*notice, lasts))\n        self.until = now + lasts",
        "        self.until = now + lasts\n        send(rush_request(*notice, lasts))",
        "sql/test_rushes.py::test_after_a_request_that_fails_the_next_job_sends_one",
    ),
    Variant(
        "every thread renews a rush",
        "sql/postgresql/rushes.py",
        "        self.renew_at = now + lasts * 0.75",
        "        self.renew_at = now",
        "sql/test_rushes.py::test_others_rely_on_a_rush_while_a_thread_renews_it",
    ),
    Variant(
        "rush of one queue silences all",
        "sql/postgresql/statements.py",
        "rush_of(self.alias, notice)",
        'rush_of(self.alias, ("", ""))',
        "sql/test_rushes.py::test_a_rush_of_enqueues_leaves_out_no_queue",
    ),
    Variant(
        "worker does not look when a rush is over",
        "waiting/rushes.py",
        "if last_at <= now:",
        "if last_at <= now + LOOK_EVERY:",
        "sql/test_rushes.py::test_the_last_look_is_at_the_end",
    ),
    Variant(
        "worker that begins to listen relies on requests",
        "waiting/wakeup_sources.py",
        "self.rushes.may_have_begun((channel, None))",
        "pass",
        "sql/test_rushes.py::test_who_begins_to_listen_looks_until_a_rush_must_be_over",
    ),
    Variant(
        "worker does not hear of rushes",
        "waiting/wakeup_sources.py",
        "sorted(new | {RUSHES[channel] for channel in new & RUSHES.keys()})",
        "sorted(new)",
        RUSH,
    ),
    Variant(
        "short rush of a process ends the long one of another",
        "waiting/rushes.py",
        "last_at = max(last_at, self.looks[wakeup].last_at)",
        "pass",
        RUSH,
    ),
    Variant(
        "jobs after a request are left lying",
        "waiting/wakeup_sources.py",
        "            self.rushes.began(wakeup, lasts)",
        "            pass",
        "sql/test_rushes.py::test_no_job_is_left_lying_after_a_rush",
    ),
    Variant(
        "worker looks once in a rush",
        "waiting/wakeup_sources.py",
        "            self.rushes.began(wakeup, lasts)",
        "            pass",
        RUSH,
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
