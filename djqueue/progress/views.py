"""The signed URLs: the state of one job as JSON, and its cancel. An invalid or expired signature is a 404."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.contrib.auth.decorators import login_not_required
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_POST, require_safe

from djqueue import jobs
from djqueue.states import CancelOutcome, Status

from . import describe, tokens
from . import status as status_of

View = Callable[[HttpRequest, str], HttpResponse]


def for_visitors(view: View) -> View:
    """Keep caches, the login page and the transactions of ATOMIC_REQUESTS away from a view: its token is enough."""
    return transaction.non_atomic_requests(login_not_required(never_cache(view)))


@for_visitors
@require_safe
def status(request: HttpRequest, token: str) -> HttpResponse:
    """Return the state of the job, with one query."""
    return JsonResponse(status_of(_job(token, tokens.STATUS)))


@for_visitors
@require_POST
@csrf_protect
def cancel(request: HttpRequest, token: str) -> HttpResponse:
    """Cancel the job. Redirect to `next` if it is a page of this site; otherwise return the state of the job."""
    job = _job(token, tokens.CANCEL)
    outcome = jobs.cancel(job)
    target = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure()):
        return HttpResponseRedirect(target)
    # A job that was removed may not be kept.
    removed = outcome is CancelOutcome.REMOVED
    return JsonResponse(describe(Status.CANCELLED) if removed else status_of(job))


def _job(token: str, purpose: str) -> UUID:
    job = tokens.read(token, purpose)
    if job is None:
        raise Http404
    return job
