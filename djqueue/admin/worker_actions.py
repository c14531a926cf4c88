"""Actions on workers: quiet, resume, drain. Each is a request, which the worker obeys within seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from djqueue.lifecycle.worker_requests import request
from djqueue.models import Worker
from djqueue.operations.summary import WorkerState, worker_state
from djqueue.states import WorkerRequest

from .actions import KEEP, Act, RowResult

LIVE = (WorkerState.ALIVE, WorkerState.QUIET, WorkerState.DRAINING)


def ask(rows: Sequence[Worker], what: WorkerRequest) -> dict[str, str]:
    """Ask the workers of these processes, each once; processes that have stopped or are lost are skipped."""
    by_worker: dict[str, list[str]] = {}
    for row in rows:
        if worker_state(row) in LIVE:
            by_worker.setdefault(row.supervisor or row.identity, []).append(row.identity)
    asked = [processes for processes in by_worker.values() if request(processes[0], what)]
    return {identity: "asked" for processes in asked for identity in processes}


def quiet(rows: Sequence[Worker], options: Mapping[str, Any]) -> dict[str, str]:
    return ask(rows, WorkerRequest.QUIET)


def resume(rows: Sequence[Worker], options: Mapping[str, Any]) -> dict[str, str]:
    return ask(rows, WorkerRequest.RESUME)


def drain(rows: Sequence[Worker], options: Mapping[str, Any]) -> dict[str, str]:
    return ask(rows, WorkerRequest.DRAIN)


QUIET = Act(
    name="quiet",
    title=_("Quiet workers"),
    question=_(
        "Are you sure you want these workers to claim no more jobs? Jobs that they hold already are run. The workers "
        "stay, and claim jobs again when they are resumed or restarted."
    ),
    button=_("Quiet"),
    confirm=ngettext_lazy("Quiet %(rows)s worker", "Quiet %(rows)s workers", "count"),
    perform=quiet,
    results={"asked": RowResult(_("%(count)s asked to be quiet"), _("Asked to be quiet."))},
)
RESUME = Act(
    name="resume",
    title=_("Resume workers"),
    question=_("Are you sure you want these workers to claim jobs again?"),
    button=_("Resume"),
    confirm=ngettext_lazy("Resume %(rows)s worker", "Resume %(rows)s workers", "count"),
    perform=resume,
    results={"asked": RowResult(_("%(count)s asked to resume"), _("Asked to resume."))},
)
DRAIN = Act(
    name="drain",
    title=_("Drain workers"),
    question=_(
        "Are you sure you want to drain these workers? They claim no more jobs, finish the running ones within "
        "SHUTDOWN_GRACE, and exit with code 0. They cannot be started from here: a service manager must start them "
        "again, and some do so only after a failure (in systemd, use Restart=always)."
    ),
    button=_("Drain"),
    confirm=ngettext_lazy("Drain %(rows)s worker", "Drain %(rows)s workers", "count"),
    decline=KEEP,
    perform=drain,
    results={"asked": RowResult(_("%(count)s asked to drain"), _("Asked to drain."))},
    danger=True,
)
ACTS = (QUIET, RESUME, DRAIN)
# What the page of a worker in each state offers. One that is lost or has stopped does not read requests.
OFFERED = {
    WorkerState.ALIVE: (QUIET, DRAIN),
    WorkerState.QUIET: (RESUME, DRAIN),
}
# The state in which a worker has obeyed.
OBEYED = {
    WorkerRequest.QUIET: (WorkerState.QUIET, WorkerState.DRAINING),
    WorkerRequest.RESUME: (WorkerState.ALIVE, WorkerState.DRAINING),
    WorkerRequest.DRAIN: (WorkerState.DRAINING,),
}
