"""Who holds a job, and which workers there are, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.text import Truncator
from django.utils.translation import gettext as _

from djqueue.conf import config
from djqueue.core import masking
from djqueue.core.durations import in_words
from djqueue.operations.moments import moment
from djqueue.operations.situation import Situation
from djqueue.operations.summary import WorkerState
from djqueue.operations.values import worker_queues

MOST_NAMED = 5


def text(situation: Situation) -> str:
    """Return who holds a claimed job, since when, how far it is, and what happens if the holder is gone."""
    parts = [_attempt(situation), _progress(situation.job), _cancel(situation.job), _lease(situation)]
    return " ".join(part for part in parts if part)


def others(rows: Sequence[Any]) -> str:
    """Return the workers that have not stopped, with their states and the queues that they claim from."""
    named = [_("%(worker)s is %(state)s%(queues)s") % _describe(row) for row in rows[:MOST_NAMED]]
    if len(rows) > MOST_NAMED:
        named.append(_("and %(count)s more") % {"count": len(rows) - MOST_NAMED})
    return "; ".join(named)


def _describe(row: Any) -> dict[str, str]:
    claims = row.state is WorkerState.ALIVE
    queues = _(" and claims from %(queues)s") % {"queues": worker_queues(row.queues)} if claims else ""
    return {"worker": row.name or row.identity, "state": str(row.state.label), "queues": queues}


def _attempt(situation: Situation) -> str:
    job = situation.job
    details = {
        "worker": job.worker or _("An unknown worker"),
        "attempt": job.attempts,
        "most": job.max_attempts,
        "at": moment(job.claimed_at, situation.now),
    }
    if job.started:
        return _("%(worker)s runs attempt %(attempt)s of %(most)s since %(at)s.") % details
    return (
        _("%(worker)s claimed the job at %(at)s, for attempt %(attempt)s of %(most)s, and has not started it.")
        % details
    )


def _progress(job: Any) -> str:
    progress = masking.hide_in(job.progress, masking.secrets(job.task, job.args, job.kwargs))
    if not isinstance(progress, dict) or "done" not in progress:
        return ""
    shown = _("%(done)s of %(total)s") % {"done": progress["done"], "total": progress.get("total")}
    message = progress.get("message")
    return _("Progress: %(progress)s.") % {"progress": Truncator(f"{shown}, {message}" if message else shown).chars(80)}


def _cancel(job: Any) -> str:
    return _("A cancel was requested; the task decides when to stop.") if job.cancel_requested else ""


def _lease(situation: Situation) -> str:
    job, now, holder = situation.job, situation.now, situation.holder
    details = {"at": moment(job.lease_expires_at, now)}
    if job.lease_expires_at is not None and job.lease_expires_at <= now:
        text = _("Its lease expired at %(at)s: a live worker takes the job back within about %(every)s.")
        return text % {**details, "every": in_words(config().reaper_interval)}
    if holder is None:
        return _("Its lease expires at %(at)s.") % details
    if holder.state is WorkerState.LOST:
        details["heartbeat"] = moment(holder.heartbeat_at, now)
        return (
            _(
                "The worker is lost (its last heartbeat was at %(heartbeat)s): the job is taken back when its lease "
                "expires at %(at)s."
            )
            % details
        )
    if holder.state is WorkerState.STOPPED:
        return _("The worker has stopped: the job is taken back when its lease expires at %(at)s.") % details
    return _("Its lease expires at %(at)s unless the worker renews it.") % details
