"""Products, customers and the orders of the last days. Created once: a second run on the same database adds nothing."""

from __future__ import annotations

import random
from datetime import timedelta

from django.contrib.auth import get_user_model
from django.utils import timezone

from example_project.shop.models import Customer, Order, Product

from .login import PASSWORD, USER

PRODUCTS = [
    ("Assam", "assam.svg", "Strong and malty, good with milk.", "8.40"),
    ("Sencha", "sencha.svg", "Green tea from Shizuoka, steamed and rolled.", "9.80"),
    ("Earl Grey", "earl-grey.svg", "Black tea with oil of bergamot.", "7.20"),
    ("Rooibos", "rooibos.svg", "From the Cederberg, without caffeine.", "5.90"),
    ("Teapot", "teapot.svg", "Cast iron, 0.8 litres, with a sieve.", "26.00"),
    ("Honey", "honey.svg", "Linden honey, 250 grams.", "6.50"),
    ("Biscuits", "biscuits.svg", "Butter biscuits, a tin of twenty.", "4.80"),
    ("Lemons", "lemons.svg", "From Sicily, one kilogram.", "3.90"),
]
FIRST_NAMES = "Ada Alan Barbara Donald Edsger Frances Grace John Katherine Margaret Niklaus Radia".split()
LAST_NAMES = "Baker Carter Fisher Miller Potter".split()


def create() -> None:
    create_user()
    for name, picture, description, price in PRODUCTS:
        defaults = {"picture": picture, "description": description, "price": price}
        Product.objects.get_or_create(name=name, defaults=defaults)
    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    customers = [Customer(name=name, email=f"{name.lower().replace(' ', '.')}@example.com") for name in names]
    Customer.objects.bulk_create(customers, ignore_conflicts=True)
    if not Order.objects.exists():
        create_old_orders()


def create_user() -> None:
    user, _ = get_user_model().objects.get_or_create(username=USER)
    user.is_staff = user.is_superuser = True
    user.set_password(PASSWORD)
    user.save()


def create_old_orders() -> None:
    """Orders of the last two days, so that there is something to report and to export."""
    products, customers = list(Product.objects.all()), list(Customer.objects.all())
    now = timezone.now()
    orders = []
    for number in range(80, 0, -1):
        product, quantity = random.choice(products), random.randint(1, 3)
        orders.append(
            Order(
                product=product,
                quantity=quantity,
                email=random.choice(customers).email,
                total=product.price * quantity,
                placed_at=now - timedelta(minutes=35 * number),
                status=Order.Status.PAID,
            )
        )
    Order.objects.bulk_create(orders)
    for product in products:
        product.sold = sum(order.quantity for order in orders if order.product == product)
        product.save(update_fields=["sold"])
