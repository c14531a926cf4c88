"""What the tests of the shop have in common."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.test import TestCase, override_settings

from example_project.shop.checkout import place_order
from example_project.shop.models import Card, Customer, Order, Product


def make_product(name: str = "Assam", **fields: object) -> Product:
    defaults = {"picture": "assam.svg", "description": "Strong.", "price": "8.40", **fields}
    return Product.objects.create(name=name, **defaults)


def make_order(card: str = Card.GOOD, quantity: int = 2) -> Order:
    """Place an order of the first product, as the front page does."""
    product = Product.objects.first() or make_product()
    product.refresh_from_db()
    return place_order(product, quantity, "ada@example.com", card)


def make_customers(number: int) -> list[Customer]:
    return [Customer.objects.create(name=f"Ada {n}", email=f"ada{n}@example.com") for n in range(number)]


@override_settings(SHOP_PACE=0)
class ShopTestCase(TestCase):
    """A test with a product, and a member of the staff at the browser. Work takes no time."""

    def setUp(self) -> None:
        self.product = make_product()
        self.client.force_login(User.objects.create_superuser("grace"))
