from __future__ import annotations

from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

import djqueue
from example_project.shop.models import Order
from example_project.shop.pages import is_live, job_of, show, show_job
from example_project.shop.pretend import calls_of
from example_project.shop.tasks import notify_partner


@staff_member_required
def partner(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        number = 10 if "ten" in request.POST else 1
        orders = Order.objects.order_by("-pk")[:number]
        jobs = notify_partner.enqueue_many(djqueue.call(order.pk) for order in orders)
        return show_job("shop:partner", jobs[-1])
    refresh = is_live(job_of(request))  # the page shows each attempt
    limit = djqueue.limits.get("partner")
    return show(request, "shop/office/partner.html", [notify_partner, their_server], refresh=refresh, limit=limit)


@csrf_exempt
@require_POST
def their_server(request: HttpRequest) -> HttpResponse:
    """The server of the partner, which is played by this site: it is busy the first two times it is asked."""
    if calls_of(f"partner/{request.headers.get('Idempotency-Key', '')[:40]}") <= 2:
        return HttpResponse("Too busy, please try again.", status=503)
    return HttpResponse("Thank you.")
