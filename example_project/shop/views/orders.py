from __future__ import annotations

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render

import djqueue
from example_project.shop.models import Invoice, Order
from example_project.shop.pages import is_live, show
from example_project.shop.tasks import charge, mail_invoice, write_invoice


def visible_orders(request: HttpRequest) -> QuerySet[Order]:
    """The orders of this visitor; of all visitors for the staff."""
    orders = Order.objects.select_related("product", "invoice")
    if request.user.is_staff:
        return orders
    return orders.filter(pk__in=request.session.get("orders", []))


def my_orders(request: HttpRequest) -> HttpResponse:
    return render(request, "shop/orders.html", {"orders": visible_orders(request)[:20]})


def order(request: HttpRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(visible_orders(request), pk=pk)
    payment = djqueue.get_job(found.payment_job) if found.payment_job else None
    writing = djqueue.get_job(found.invoice_job) if found.invoice_job else None
    has_invoice = hasattr(found, "invoice")
    context = {
        "order": found,
        "payment": payment,
        "writing": writing,
        "is_writing": is_live(writing),
        "has_invoice": has_invoice,
        # While a bar moves, its script keeps it up to date; what has no bar is shown by loading the page again.
        "refresh": is_live(payment) or (has_invoice and not found.mailed_at),
    }
    return show(request, "shop/order.html", [charge, write_invoice, mail_invoice], **context)


def invoice(request: HttpRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(Invoice, order__in=visible_orders(request).filter(pk=pk))
    return HttpResponse(bytes(found.pdf), content_type="application/pdf")
