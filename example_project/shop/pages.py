"""What the pages of the back office have in common: the job that was started, and the code that has started it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

import djqueue


def show_job(name: str, handle: djqueue.JobHandle) -> HttpResponseRedirect:
    """Redirect to a page that shows this job."""
    return HttpResponseRedirect(f"{reverse(name)}?job={handle.id}")


def job_of(request: HttpRequest) -> djqueue.JobRecord | None:
    """Return the job that the page is to show."""
    return djqueue.get_job(request.GET.get("job", ""))


def is_live(job: djqueue.JobRecord | None) -> bool:
    """Return whether the job will still change: it is waiting, running or about to be retried."""
    return job is not None and job.status not in (djqueue.Status.DONE, djqueue.Status.DEAD, djqueue.Status.CANCELLED)


def show(request: HttpRequest, template: str, code: list[Callable[..., Any]], **context: Any) -> HttpResponse:
    """Render a page with the job of the request, if there is one, and with the source of its functions."""
    job = job_of(request)
    sources = [source(function) for function in code]
    return render(request, template, {"job": job, "live": is_live(job), "code": sources, **context})


def source(function: Callable[..., Any]) -> str:
    """Return the source of a task or of a view, so that what the page shows is what runs."""
    return inspect.getsource(inspect.unwrap(function))
