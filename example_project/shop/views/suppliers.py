from __future__ import annotations

from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse

from example_project.shop.models import Product
from example_project.shop.pages import show, show_job
from example_project.shop.tasks import import_prices
from example_project.shop.tasks.suppliers import import_newest


@staff_member_required
def supplier(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        if "both" in request.POST:
            [handle, _] = [import_newest(name) for name in ("winter.csv", "autumn.csv")]  # two handles of one job
        else:
            handle = import_prices.enqueue(request.POST["file"])
        return show_job("shop:supplier", handle)
    return show(request, "shop/office/supplier.html", [import_prices, import_newest], products=Product.objects.all())
