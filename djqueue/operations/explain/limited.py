"""Why a blocked job is not admitted: its limit key is held, or its permits are used up."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from djqueue.core.durations import in_words
from djqueue.core.limits import Numbers
from djqueue.core.records import LimitRow
from djqueue.lifecycle.allowance import numbers_of
from djqueue.models import Job
from djqueue.operations import limits
from djqueue.operations.moments import moment
from djqueue.operations.situation import MOST_COUNTED, Situation
from djqueue.states import Status

from . import Code, Explanation
from .numbers import jobs_ahead

MOST_NAMED = 3  # jobs that hold a permit


def explanation(situation: Situation) -> Explanation:
    """Return why a blocked job is not pending. At most three statements."""
    job, database = situation.job, situation.database
    if job.limit_key is None:  # a row that was edited by hand
        return Explanation(
            Code.LIMIT, _("The job is blocked but has no limit key, so it is never admitted. Cancel it.")
        )
    row = limits.read_row(database, job.limit_key, situation.now, job.task)
    ahead = limits.ahead(database, job.limit_key, situation.mark, MOST_COUNTED + 1)
    until = limits.held_until(row)
    if until is not None:
        text = _(
            "The limit key “%(key)s” is held until %(at)s: none of its jobs is admitted before, and %(ahead)s. "
            "Release it to admit them earlier."
        )
        details = {"key": row.key, "at": moment(until, situation.now), "ahead": jobs_ahead(ahead)}
        return Explanation(Code.LIMIT_HELD, text % details)
    held = limits.any_holders(job.limit_key, limits.MOST_COUNTED + 1)
    numbers = numbers_of(row, job.task)
    details = {"key": row.key, "task": job.task, "holders": _holders(held), "ahead": jobs_ahead(ahead)}
    if numbers is None:
        text = _(
            "The job waits for a permit of the limit key “%(key)s”: %(holders)s, and %(ahead)s. The numbers of the key "
            "are unknown here, because no task “%(task)s” is registered in this process; a worker that has it admits "
            "the job."
        )
        return Explanation(Code.LIMIT, text % details)
    details["numbers"] = limits.numbers_text(numbers)
    text = _("The limit key “%(key)s” allows %(numbers)s: %(holders)s, and %(ahead)s. ")
    return Explanation(Code.LIMIT, text % details + _when(row, numbers, held, ahead))


def _holders(held: Sequence[Job]) -> str:
    if not held:
        return _("no job holds a permit")
    count = len(held)
    text = ngettext("%(count)s job holds a permit (%(ids)s)", "%(count)s jobs hold a permit (%(ids)s)", count)
    ids = ", ".join(str(job.pk) for job in held[:MOST_NAMED])
    if count > MOST_NAMED:
        ids = _("%(ids)s and others") % {"ids": ids}
    shown = f"{count:,}" if count <= limits.MOST_COUNTED else _("more than %(count)s") % {"count": f"{count - 1:,}"}
    return text % {"count": shown, "ids": ids}


def _when(row: LimitRow, numbers: Numbers, held: Sequence[Job], ahead: int) -> str:
    """Return what has to happen before the next job is admitted."""
    if numbers.concurrency is not None and len(held) >= numbers.concurrency:
        return _("The next job is admitted when one of them ends. To admit more, raise the concurrency of the key.")
    if wait := limits.rate_wait(row, numbers):
        text = _("The rate allows the next job in %(time)s. To admit more, raise the rate of the key.")
        return text % {"time": in_words(wait)}
    if limits.rate_left(row, numbers, sum(job.status == Status.PENDING for job in held)) == 0:
        return _("The next job is admitted when one of them is claimed: no more than the burst may start at once.")
    if ahead:
        return _("A permit is free for the next job in line.")
    return _("A permit is free: a worker admits the job within seconds.")
