from __future__ import annotations

from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

PAGES = [
    ("newsletter", "Newsletter", "Mails in bulk: one job for each customer, created with one statement."),
    ("export", "Export", "A long job with a progress bar, which can be cancelled from its page."),
    ("report", "Nightly report", "A job that a cron rule creates every night."),
    ("recount", "Recount sales", "A button that can be pressed often and creates one job."),
    ("partner", "Partner", "Requests to a server that is not always up: a growing delay, and two at once at most."),
    ("supplier", "Price list", "A job that dies, and how it is requeued; of several lists, only the newest counts."),
    ("prices", "Compare prices", "One job that creates fifteen, all of which wait at the same time."),
    ("transaction", "Transaction", "What becomes of a job if the transaction that created it is rolled back."),
]


@staff_member_required
def index(request: HttpRequest) -> HttpResponse:
    return render(request, "shop/office/index.html", {"pages": [(f"shop:{name}", *texts) for name, *texts in PAGES]})
