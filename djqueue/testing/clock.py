"""Let time pass for the queue: jobs, retries, schedules, leases, limit keys and KV entries.

The clocks of Python and of the database stay as they are. Instead, the stored times are moved into the past, step by
step from one event to the next, so that each job runs in the state of its moment.

Schedules are bound to the calendar: the calendar of each schedule runs ahead of the clock by the time that has passed
for it. How far it is ahead is written to a KV entry, which is rolled back together with the schedules.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import DateTimeField, F, Min

from djqueue import kv, maintenance, schedules
from djqueue.conf import whole
from djqueue.core.async_twins import twin
from djqueue.core.durations import Duration, seconds
from djqueue.core.records import JobRecord
from djqueue.exceptions import DjqueueError
from djqueue.lifecycle.admit import admit_keys, blocked_pages
from djqueue.lifecycle.promote import due_in
from djqueue.schedules.fire import fire_ahead
from djqueue.sql import Statements, statements
from djqueue.states import Status
from djqueue.worker import inline

from .pending import LIMIT, attempts

if TYPE_CHECKING:
    from djqueue.models import Schedule

KEY = "djqueue.testing.advanced"
CALENDAR = ("slot", "starts_at", "ends_at")  # the columns with times of a schedule's calendar
NONE = timedelta(0)
MICROSECOND = timedelta(microseconds=1)


def advance(time: Duration, *, raise_errors: bool = True, limit: int = LIMIT) -> list[JobRecord]:
    """Let time pass: run due jobs, retries and schedules in the order of their times; return one record per attempt.

    Schedules declared in code are written to the table first, as by a worker that starts. Failed attempts are retried
    as in production. If the last attempt of a job in this time has failed, its exception is raised at the end, unless
    `raise_errors` is False. Raise DjqueueError after more than `limit` attempts, or steps from event to event.
    """
    clock = _Clock(statements())
    left = timedelta(seconds=seconds(time, "time"))
    schedules.synchronise()
    ran: list[JobRecord] = []
    last: dict[UUID, inline.Attempt] = {}  # by job
    for _ in range(whole(limit, "limit") + 1):
        with inline.as_committed():
            maintenance.reap()
            clock.fire()
        last |= {attempt.job.id: attempt for attempt in attempts(ran, None, limit)}
        wait = clock.until_next_event()
        if wait is None or wait > left:
            break
        clock.pass_by(wait)
        left -= wait
    else:
        raise DjqueueError(
            f"Something was due at more than {limit} moments, and {left} of the time are left. "
            "Advance by less time, or pass a higher limit."
        )
    clock.pass_by(left)
    for attempt in last.values() if raise_errors else ():
        attempt.raise_error()
    return ran


aadvance = twin(advance)


class _Clock:
    """The queue's times in one database."""

    def __init__(self, database: Statements) -> None:
        self.database = database
        # By id of the schedule: how far its calendar is ahead, and the next slot that was left there.
        self.calendars: dict[int, tuple[timedelta, datetime | None]] = {}
        for key, (passed, next_at) in kv.get(KEY, {}).items():
            self.calendars[int(key)] = (passed * MICROSECOND, next_at and datetime.fromisoformat(next_at))

    def fire(self) -> None:
        """Fire the schedules that are due by their calendars."""
        now = self.database.now()
        ahead = self._ahead()
        due = [(row, passed) for row, passed in ahead if row.next_at is None or row.next_at <= now]
        if due:
            fire_ahead(due)
            self._save(ahead)

    def until_next_event(self) -> timedelta | None:
        """Return the time until a job or schedule is due, a lease expires or a key admits more; None for never."""
        from djqueue.models import Job

        claimed = Job.objects.using(self.database.alias).filter(status=Status.CLAIMED.value)
        now = self.database.now()
        expiry = claimed.filter(lease_expires_at__gt=now).aggregate(at=Min("lease_expires_at"))["at"]
        waits = [] if expiry is None else [expiry - now]
        waits += [row.next_at - now for row, _ in self._ahead() if row.next_at is not None]
        if (due := due_in()) is not None:
            waits.append(timedelta(seconds=due))
        for keys in blocked_pages():
            # Rounded up: a moment too early, nothing is admitted.
            waits += [ceil(wait * 1e6) * MICROSECOND for wait in admit_keys(keys).waits.values()]
        return max(min(waits), NONE) if waits else None

    def pass_by(self, time: timedelta) -> None:
        """Move all times into the past, and the calendars of schedules ahead."""
        from djqueue.models import KV, DeadJob, DoneJob, Job, LimitKey, Schedule

        if time:
            ahead = self._ahead()
            for model in (Job, DoneJob, DeadJob, KV, Schedule, LimitKey):
                rows: Any = model._base_manager.using(self.database.alias)
                rows.update(**{name: F(name) - time for name in _instants(model)})
            for row, _ in ahead:
                row.next_at = row.next_at and row.next_at - time
            self._save([(row, passed + time) for row, passed in ahead])

    def _ahead(self) -> list[tuple[Schedule, timedelta]]:
        """Return the enabled schedules, and how far their calendars are ahead.

        A schedule that was created or changed since follows the clock: its next slot was counted from there.
        """
        from djqueue.models import Schedule

        found = []
        for row in Schedule.objects.using(self.database.alias).filter(enabled=True):
            passed, next_at = self.calendars.get(row.pk, (NONE, None))
            found.append((row, passed if row.next_at == next_at else NONE))
        return found

    def _save(self, ahead: list[tuple[Schedule, timedelta]]) -> None:
        if ahead:
            self.calendars = {row.pk: (passed, row.next_at) for row, passed in ahead}
            kv.set(KEY, {str(row.pk): [passed // MICROSECOND, _text(row.next_at)] for row, passed in ahead})


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()


def _instants(model: Any) -> list[str]:
    """Return the columns that are moved."""
    fields = model._meta.local_concrete_fields
    return [field.attname for field in fields if isinstance(field, DateTimeField) and field.attname not in CALENDAR]
