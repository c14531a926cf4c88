from __future__ import annotations

from django.contrib import messages
from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse

from example_project.shop.models import Product
from example_project.shop.pages import show, show_job
from example_project.shop.tasks import recount_sales


@staff_member_required
def recount(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        handle = recount_sales.using(dedup_key="recount").enqueue()
        if handle.created:
            messages.success(request, "A job was created.")
        else:
            messages.info(request, "Already queued: no job was created.")
        return show_job("shop:recount", handle)
    return show(
        request, "shop/office/recount.html", [recount_sales, recount], products=Product.objects.order_by("-sold")
    )
