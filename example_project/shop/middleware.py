from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def content_security_policy(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Allow nothing inline and nothing from elsewhere. The pages of djqueue and of Django's admin need nothing more."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if not (
            settings.DEBUG and response.status_code in (404, 500)
        ):  # Django's pages for developers have inline styles
            response.headers.setdefault("Content-Security-Policy", POLICY)
        return response

    return middleware
