from __future__ import annotations

from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from example_project.shop.models import Product, Quote
from example_project.shop.pages import job_of, show, show_job
from example_project.shop.tasks import ask_shop, compare_prices
from example_project.shop.tasks.prices import SHOPS


@staff_member_required
def compare(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        product = get_object_or_404(Product, pk=request.POST["product"])
        Quote.objects.filter(product=product).delete()
        return show_job("shop:prices", compare_prices.enqueue(product.pk))
    job = job_of(request)
    chosen = Product.objects.filter(pk=job.args[0]).first() if job else None
    quotes = Quote.objects.filter(product=chosen).order_by("price")
    context = {"products": Product.objects.all(), "chosen": chosen, "quotes": quotes, "shops": len(SHOPS)}
    # The page loads itself again until all shops have answered.
    context["refresh"] = chosen is not None and len(quotes) < len(SHOPS)
    return show(request, "shop/office/prices.html", [compare_prices, ask_shop], **context)
