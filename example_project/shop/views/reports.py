from __future__ import annotations

import inspect

from django.contrib import messages
from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

import djqueue
from example_project.shop.models import Report
from example_project.shop.pages import show, show_job
from example_project.shop.tasks import reports, write_report


@staff_member_required
def report(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        try:
            return show_job("shop:report", djqueue.schedules.run_now("nightly-report"))
        except djqueue.UnknownSchedule:
            messages.warning(request, "The first worker that starts writes the schedule. Is a worker running?")
            return redirect("shop:report")
    context = {"reports": Report.objects.order_by("-day")[:7], "schedule": schedule_lines()}
    return show(request, "shop/office/report.html", [write_report], **context)


def schedule_lines() -> str:
    """Return the line of the module that declares the schedule."""
    return "".join(line for line in inspect.getsource(reports).splitlines() if line.startswith("djqueue.schedule("))
