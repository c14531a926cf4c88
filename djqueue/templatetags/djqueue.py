"""`{% load djqueue %}`: the progress of a job on a page of the project."""

from __future__ import annotations

from typing import Any

from django import template
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.middleware.csrf import get_token
from django.template.context import Context

from djqueue import progress
from djqueue.core.durations import Duration
from djqueue.exceptions import InvalidOption

register = template.Library()

# What the text of a bar may say. Beside the states of a job: a cancel is requested, the job vanished while the page was
# open, the server does not answer, the signature has expired.
TEXTS = "scheduled blocked pending claimed stopping done dead cancelled gone unknown offline expired".split()

NO_REQUEST = (
    "djqueue_progress with cancel=True needs the request, for its CSRF token. Render the template with "
    "render(request, ...)."
)


@register.inclusion_tag("djqueue/progress.html", takes_context=True)
def djqueue_progress(
    context: Context,
    job: Any,
    *,
    cancel: bool = False,
    done_url: str = "",
    redirect: bool = False,
    label: str = "",
    max_age: Duration = progress.MAX_AGE,
) -> dict[str, Any]:
    """Show a progress bar for a job, and keep it up to date."""
    if redirect and not done_url:
        raise InvalidOption("djqueue_progress: redirect=True requires done_url.")
    status = progress.status(job)
    request = _request(context)
    shown = {
        "request": request,
        "job": status,
        "text": "stopping" if status["cancel_requested"] and not status["finished"] else status["status"],
        "texts": TEXTS,
        "status_url": progress.status_url(job, max_age=max_age),
        "page_url": "" if request is None else request.get_full_path(),
        "done_url": done_url,
        "redirect": redirect,
        "label": label,
        **_media(context, once=True),
    }
    if cancel and not status["finished"]:
        if request is None:
            raise ImproperlyConfigured(NO_REQUEST)
        shown["cancel_url"] = progress.cancel_url(job, max_age=max_age)
        shown["csrf_token"] = get_token(request)
    return shown


@register.inclusion_tag("djqueue/progress_media.html", takes_context=True)
def djqueue_progress_media(context: Context) -> dict[str, Any]:
    """Load the script and the stylesheet of the bars here, and not before the first bar."""
    return _media(context, once=False)


def _media(context: Context, *, once: bool) -> dict[str, Any]:
    """Return whether the page still needs the script and the stylesheet, and the nonce for them.

    Without a request, every bar loads them; a browser fetches them only once.
    """
    request = _request(context)
    media = not (once and getattr(request, "_djqueue_progress_media", False))
    if request is not None:
        request._djqueue_progress_media = True  # type: ignore[attr-defined]
    # Django's nonce, or that of django-csp. It is false until it is used.
    nonce = context.get("csp_nonce", getattr(request, "csp_nonce", None)) if media else None
    return {"media": media, "nonce": "" if nonce is None else str(nonce)}


def _request(context: Context) -> HttpRequest | None:
    return getattr(context, "request", None) or context.get("request")
