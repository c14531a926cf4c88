from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from example_project.shop.checkout import place_order
from example_project.shop.forms import OrderForm
from example_project.shop.models import Card, Product
from example_project.shop.pages import show


def products(request: HttpRequest) -> HttpResponse:
    """Show the products; on a POST, place an order."""
    form = OrderForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        order = place_order(**form.cleaned_data)
        # A visitor needs no account: the session knows which orders are theirs.
        request.session["orders"] = [*request.session.get("orders", []), order.pk]
        request.session["email"] = order.email
        return redirect(order)
    email = request.session.get("email", "ada@example.com")
    context = {"form": form, "products": Product.objects.all(), "cards": Card.choices, "email": email}
    return show(request, "shop/products.html", [place_order], **context)
