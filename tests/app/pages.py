"""Pages of a site for visitors who are not staff."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def bars(request: HttpRequest) -> HttpResponse:
    """Show the bars of the jobs in the query, with the options in the query."""
    given = request.GET
    options = {name: given.get(name, "") for name in ("cancel", "redirect", "done_url", "label")}
    return render(request, "tests/bars.html", {"jobs": given.getlist("job"), **options})


def ready(request: HttpRequest) -> HttpResponse:
    return HttpResponse("<!doctype html><title>Ready</title><h1>Here is your export</h1>")
