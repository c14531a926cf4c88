from __future__ import annotations

from uuid import uuid4

from django.contrib.admin.views.decorators import staff_member_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import urlencode

import djqueue
from example_project.shop.models import Customer
from example_project.shop.pages import is_live, show
from example_project.shop.tasks import send_welcome, suggest_tea


class SignUpFailed(Exception):
    pass


@staff_member_required
def sign_up(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return show_outcome(request)
    email = f"{uuid4().hex[:8]}@example.com"
    try:
        with transaction.atomic():
            customer = Customer.objects.create(name="A new customer", email=email)
            # A row of this transaction: it is committed with the customer, or rolled back with the customer.
            welcome = send_welcome.enqueue(customer.pk)
            # Written by transaction.on_commit: needed if the queue is in another database than the customer.
            suggestion = suggest_tea.using(on_commit=True).enqueue(customer.pk)
            if "fail" in request.POST:
                raise SignUpFailed  # after everything was written
    except SignUpFailed:
        pass
    return HttpResponseRedirect(
        "?" + urlencode({"email": email, "job": [str(welcome.id), str(suggestion.id)]}, doseq=True)
    )


def show_outcome(request: HttpRequest) -> HttpResponse:
    email = request.GET.get("email")
    jobs = {id: djqueue.get_job(id) for id in request.GET.getlist("job")}  # noqa: A001
    context = {
        "email": email,
        "customer": Customer.objects.filter(email=email).first(),
        "jobs": jobs,
        "refresh": any(map(is_live, jobs.values())),
    }
    return show(request, "shop/office/transaction.html", [sign_up], **context)
