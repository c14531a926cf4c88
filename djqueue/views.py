"""Probes and numbers for machines. All are closed (404) to requests that may not read; see djqueue.access."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from .access import View, closed
from .operations import health, summary

TEXT = "text/plain; charset=utf-8"
WITHOUT_PROMETHEUS = "prometheus_client is not installed: pip install 'django-djqueue[prometheus]'.\n"


def for_machines(view: View) -> View:
    """Close a view, and keep caches and the transactions of ATOMIC_REQUESTS away from it."""
    return transaction.non_atomic_requests(closed(never_cache(require_safe(view))))


@for_machines
def live(request: HttpRequest) -> HttpResponse:
    """Answer 200: this process answers. The database is not asked, because restarting the process would not help it."""
    return HttpResponse("live\n", content_type=TEXT)


@for_machines
def ready(request: HttpRequest) -> HttpResponse:
    """Answer 200 if jobs are being run, else 503, within a few seconds."""
    if health.check().ready:
        return HttpResponse("ready\n", content_type=TEXT)
    return HttpResponse("unready\n", content_type=TEXT, status=503)


@for_machines
def stats(request: HttpRequest) -> HttpResponse:
    """Return what `manage.py djqueue stats --json` prints."""
    return JsonResponse(summary.as_json())


@for_machines
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics for Prometheus; 501 if its client library is not installed."""
    try:
        from .contrib import prometheus
    except ImportError:
        return HttpResponse(WITHOUT_PROMETHEUS, content_type=TEXT, status=501)
    return prometheus.metrics(request)
