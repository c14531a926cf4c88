"""The progress of one job, for pages of the project and for visitors who are not staff.

A URL is signed for one job and one purpose, and it expires. Its holder may read the state of that job, or cancel it.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from djqueue.core.async_twins import twin
from djqueue.core.durations import Duration
from djqueue.core.options import job_id
from djqueue.core.records import JobRecord
from djqueue.jobs import JobHandle
from djqueue.operations import timeline
from djqueue.sql import statements
from djqueue.states import TERMINAL, Status

from . import tokens

MAX_AGE = 86400.0  # seconds
UNKNOWN = "unknown"  # the status of a job that has no row: it is no longer kept, or was never committed

NO_URLS = (
    "The progress of jobs needs the URLs of djqueue, which {urlconf} does not include. Add this line to its "
    'urlpatterns: path("djqueue/", include("djqueue.urls")),'
)


def status(job: Any) -> dict[str, Any]:
    """Return what a visitor may know of a job: a handle, an id, a record or a row. Read it, unless it is given.

    A job without a row is unknown and finished, except one that is enqueued on commit.
    """
    found = job if _is_read(job) else statements().get(job_id(job), payload=False)
    if found is not None:
        return describe(found.status, found.cancel_requested, found.progress)
    if isinstance(job, JobHandle) and job.created is None:
        return describe(Status.PENDING)
    return describe(UNKNOWN)


astatus = twin(status)


def status_url(job: Any, request: HttpRequest | None = None, *, max_age: Duration = MAX_AGE) -> str:
    """Return the URL of the status of this job as JSON, valid until `max_age` has passed; absolute with a request."""
    return _url("progress", tokens.sign(job_id(job), tokens.STATUS, max_age), request)


def cancel_url(job: Any, request: HttpRequest | None = None, *, max_age: Duration = MAX_AGE) -> str:
    """Return the URL that cancels this job by POST, valid until `max_age` has passed; absolute with a request."""
    return _url("progress-cancel", tokens.sign(job_id(job), tokens.CANCEL, max_age), request)


def describe(status: str, cancel_requested: bool = False, stored: Any = None) -> dict[str, Any]:
    """Return a status as it is sent. `percent` is the length of a bar, and None if a running job did not report it."""
    measured = timeline.progress(stored)
    message = str(stored.get("message", "")) if isinstance(stored, dict) else ""
    if status == Status.DONE:
        percent: int | None = 100
    elif measured is not None:
        percent = measured.percent
    else:
        percent = None if status == Status.CLAIMED else 0
    return {
        "status": str(status),
        "finished": status in TERMINAL or status == UNKNOWN,
        "cancel_requested": cancel_requested,
        "percent": percent,
        "progress": None
        if measured is None and not message
        else {
            "done": None if measured is None else measured.done,
            "total": None if measured is None else measured.total,
            "message": message,
        },
    }


def _is_read(job: Any) -> bool:
    from djqueue.models import JobFields

    return isinstance(job, JobRecord | JobFields)


def _url(view: str, token: str, request: HttpRequest | None) -> str:
    try:
        path = reverse(f"djqueue:{view}", args=[token])
    except NoReverseMatch:
        urlconf = getattr(request, "urlconf", None) or settings.ROOT_URLCONF
        raise ImproperlyConfigured(NO_URLS.format(urlconf=urlconf)) from None
    return path if request is None else request.build_absolute_uri(path)
