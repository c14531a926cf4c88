"""The checks of `explain`, in their order, and its sentences."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from djqueue.conf import FOR_EVER, config
from djqueue.core import masking, registry
from djqueue.core.durations import in_words
from djqueue.core.shown import shown_id
from djqueue.lifecycle.unknown_tasks import similar
from djqueue.operations.moments import moment
from djqueue.operations.situation import Situation
from djqueue.states import Status

from . import Code, Explanation, holders, limited
from .numbers import jobs_ahead, number

LONGEST_ERROR = 120
COMMAND = "python manage.py runworker"


def of(situation: Situation) -> Explanation:
    """Return the first reason that holds, in the order of `Code`: it must be removed before the others matter."""
    return next(_reasons(situation))


def _reasons(situation: Situation) -> Iterator[Explanation]:
    job = situation.job
    match job.status:
        case Status.DONE:
            yield Explanation(Code.DONE, _done(situation))
        case Status.CANCELLED:
            yield Explanation(Code.CANCELLED, _cancelled(situation))
        case Status.DEAD:
            yield Explanation(Code.DEAD, _dead(situation))
        case Status.CLAIMED:
            yield Explanation(Code.CLAIMED, holders.text(situation))
    # A job of an unknown task is put back for a short time again and again: that time is not the reason.
    is_due = job.status != Status.SCHEDULED or job.run_at <= situation.now or job.unknown_since is not None
    if not is_due and is_retry(job):
        yield Explanation(Code.RETRY, _retry(situation))
    if not is_due:
        yield Explanation(Code.SCHEDULED, _scheduled(situation))
    if situation.is_paused:
        yield Explanation(Code.PAUSED, _paused(situation))
    if not situation.consumers:
        yield Explanation(Code.NO_WORKER, _no_worker(situation))
    if job.unknown_since is not None:
        yield Explanation(Code.UNKNOWN_TASK, _unknown_task(situation))
    if job.status == Status.SCHEDULED:
        yield Explanation(Code.SCHEDULED, _overdue(situation))
    if job.status == Status.BLOCKED:
        yield limited.explanation(situation)
    if situation.is_at_limit:
        yield Explanation(Code.CONCURRENCY, _concurrency(situation))
    yield Explanation(Code.WAITING, _waiting(situation))


def not_found(given: object) -> Explanation:
    """Return the explanation of an id that no job has."""
    text = _(
        "No job has the id %(id)s: it was never enqueued, its transaction was rolled back, or it is no longer kept. "
        "Done and cancelled jobs are kept for %(done)s (KEEP_DONE), dead jobs for %(dead)s (KEEP_DEAD)."
    )
    kept = {"done": _kept_for(config().keep_done), "dead": _kept_for(config().keep_dead)}
    return Explanation(Code.NOT_FOUND, text % {"id": shown_id(getattr(given, "id", given)), **kept})


def is_retry(job: Any) -> bool:
    """Return whether a scheduled job waits because its latest attempt failed, not because of a delay or a snooze."""
    failed: datetime | None = job.failed_at
    return job.attempts > 0 and failed is not None and (not job.last_attempted_at or failed >= job.last_attempted_at)


def error(job: Any) -> str:
    """Return the last error on one line, masked and cut."""
    hidden = masking.hide(job.last_error, masking.secrets(job.task, job.args, job.kwargs))
    return Truncator(hidden.strip().partition("\n")[0] or _("no message")).chars(LONGEST_ERROR)


def _kept_for(seconds: float) -> str:
    if seconds == FOR_EVER:
        return _("ever")
    return in_words(seconds) if seconds else _("no time")


def _done(situation: Situation) -> str:
    job = situation.job
    details = {"at": moment(job.completed_at, situation.now), "attempt": job.attempts, "most": job.max_attempts}
    if job.claimed_at is None:
        return _("The job was done at %(at)s.") % details
    details["ran"] = in_words((job.completed_at - job.claimed_at).total_seconds())
    return _("The job was done at %(at)s, in attempt %(attempt)s of %(most)s, after %(ran)s.") % details


def _cancelled(situation: Situation) -> str:
    text = _("The job was cancelled at %(at)s. To run it after all, enqueue it again.")
    return text % {"at": moment(situation.job.completed_at, situation.now)}


def _dead(situation: Situation) -> str:
    job = situation.job
    text = _(
        "The job became dead at %(at)s, after %(attempts)s of %(most)s attempts: %(error)s. "
        "Remove the cause, then requeue it; it is kept until %(until)s."
    )
    kept = config().keep_dead
    until = _("it is deleted") if kept == FOR_EVER else moment(_later(job.failed_at, kept), situation.now)
    details = {"attempts": job.attempts, "most": job.max_attempts, "error": error(job).rstrip("."), "until": until}
    return text % {"at": moment(job.failed_at, situation.now), **details}


def _scheduled(situation: Situation) -> str:
    text = _("The job is scheduled for %(at)s. To run it earlier, reschedule it.")
    return text % {"at": moment(situation.job.run_at, situation.now)}


def _retry(situation: Situation) -> str:
    job = situation.job
    left = job.max_attempts - job.attempts
    text = ngettext(
        "Attempt %(attempt)s of %(most)s failed at %(failed)s: %(error)s. The next attempt is due at %(at)s; it is the "
        "last one.",
        "Attempt %(attempt)s of %(most)s failed at %(failed)s: %(error)s. The next attempt is due at %(at)s; %(left)s "
        "attempts are left.",
        max(left, 1),
    )
    details = {"attempt": job.attempts, "most": job.max_attempts, "left": left, "error": error(job).rstrip(".")}
    times = {"failed": moment(job.failed_at, situation.now), "at": moment(job.run_at, situation.now)}
    return text % {**details, **times}


def _overdue(situation: Situation) -> str:
    text = _(
        "The job has been due since %(at)s, and waits for a worker to make it pending, which takes about %(every)s. "
        "If this lasts, no live worker does maintenance: start one without --no-maintenance."
    )
    return text % {"at": moment(situation.job.run_at, situation.now), "every": in_words(config().scheduler_interval)}


def _paused(situation: Situation) -> str:
    since = situation.state.paused_at if situation.state else None
    if since is None:
        paused = _("The queue “%(queue)s” is paused") % {"queue": situation.queue}
    else:
        details = {"queue": situation.queue, "at": moment(since, situation.now)}
        paused = _("The queue “%(queue)s” has been paused since %(at)s") % details
    if situation.job.status == Status.BLOCKED:
        text = _("%(paused)s. When it is resumed, the job waits for a permit of its limit key “%(key)s”.")
        return text % {"paused": paused, "key": situation.job.limit_key}
    text = ngettext(
        "%(paused)s. Resume it to run its %(count)s pending job.",
        "%(paused)s. Resume it to run its %(count)s pending jobs.",
        situation.pending,
    )
    return text % {"paused": paused, "count": number(situation.pending)}


def _no_worker(situation: Situation) -> str:
    others = holders.others(situation.workers)
    details = {"queue": situation.queue, "others": others}
    if not others:
        details["command"] = COMMAND
        return _("No worker is alive, so the queue “%(queue)s” is not consumed. Start one: %(command)s") % details
    details["command"] = f"{COMMAND} --queue {shlex.quote(situation.queue)}"
    return _("No live worker claims jobs of the queue “%(queue)s” (%(others)s). Start one: %(command)s") % details


def _unknown_task(situation: Situation) -> str:
    job, now = situation.job, situation.now
    details = {
        "task": job.task,
        "since": moment(job.unknown_since, now),
        "until": moment(_later(job.unknown_since, config().unknown_task_grace), now),
    }
    text = _(
        "The workers have no task named “%(task)s”: one claimed the job at %(since)s and put it back. It is tried "
        "again until %(until)s (UNKNOWN_TASK_GRACE), then it is dead."
    )
    if registry.find(job.task) is not None:
        remedy = _("The task is registered in this process: restart the workers with this release.")
    elif names := similar(job.task):
        remedy = _("Tasks with a similar name: %(names)s.") % {"names": ", ".join(names)}
    else:
        remedy = _("Start workers with a release that has it, and whose apps import its module.")
    return f"{text % details} {remedy}"


def _concurrency(situation: Situation) -> str:
    text = ngettext(
        "The concurrency of the queue “%(queue)s” is used up: %(workers)s may hold %(limit)s of its jobs each, "
        "and %(ahead)s. Raise the concurrency, or start more workers.",
        "The concurrency of the queue “%(queue)s” is used up: %(workers)s may hold %(limit)s of its jobs each, "
        "and %(ahead)s. Raise the concurrency, or start more workers.",
        situation.concurrency or 0,
    )
    details = {"queue": situation.queue, "limit": situation.concurrency, "workers": _processes(situation)}
    return text % {**details, "ahead": jobs_ahead(situation.ahead)}


def _waiting(situation: Situation) -> str:
    threads = situation.threads
    text = ngettext(
        "The job waits for its turn: %(ahead)s in the queue “%(queue)s”, "
        "which is consumed by %(workers)s with %(count)s thread.",
        "The job waits for its turn: %(ahead)s in the queue “%(queue)s”, "
        "which is consumed by %(workers)s with %(count)s threads.",
        threads,
    )
    details = {"queue": situation.queue, "count": threads, "workers": _processes(situation)}
    return text % {**details, "ahead": jobs_ahead(situation.ahead)}


def _processes(situation: Situation) -> str:
    count = len(situation.consumers)
    return ngettext("%(count)s worker process", "%(count)s worker processes", count) % {"count": count}


def _later(at: datetime | None, seconds: float) -> datetime | None:
    return at and at + timedelta(seconds=seconds)
