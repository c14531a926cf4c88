"""Who may read what djqueue serves over HTTP outside of the admin: probes, numbers and metrics."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from secrets import compare_digest

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse

from .conf import config

PERMISSION = "djqueue.view_job"

View = Callable[[HttpRequest], HttpResponse]


def may_read(request: HttpRequest) -> bool:
    """Return whether the request has HEALTH_TOKEN in its Authorization header, or a user with the view permission."""
    return _has_token(request) or _has_permission(request)


def closed(view: View) -> View:
    """Answer 404 to requests that may not read, as if there were nothing."""

    @login_not_required  # for LoginRequiredMiddleware: a client with the token does not log in
    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        if not may_read(request):
            raise Http404
        return view(request)

    return answer


def _has_token(request: HttpRequest) -> bool:
    token = config().health_token
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if token is None or scheme.lower() != "bearer":
        return False
    return compare_digest(given.strip().encode(errors="replace"), token.encode())


def _has_permission(request: HttpRequest) -> bool:
    user = getattr(request, "user", None)  # set by AuthenticationMiddleware
    return user is not None and bool(user.has_perm(PERMISSION))
