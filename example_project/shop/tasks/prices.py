"""Ask many shops at once: coroutines, which need no thread each."""

from __future__ import annotations

from decimal import Decimal

import djqueue
from example_project.shop import pretend
from example_project.shop.models import Product, Quote

SHOPS = [
    f"{name} {kind}" for name in ("Alpine", "Baltic", "City", "Dockside", "Eden") for kind in ("Tea", "Shop", "Market")
]


@djqueue.task(queue="prices")
async def compare_prices(product_id: int) -> str:
    # Safe to repeat: asking a shop twice does no harm.
    jobs = await ask_shop.aenqueue_many([djqueue.call(product_id, shop) for shop in SHOPS])
    return f"asks {len(jobs)} shops"


@djqueue.task(queue="prices", timeout=10)
async def ask_shop(product_id: int, shop: str) -> str:
    product = await Product.objects.aget(pk=product_id)
    await pretend.awork(1)  # stands for a request that takes a second
    price = product.price * Decimal(80 + len(shop) * 7 % 41) / 100
    # Safe to repeat: there is one quote for each shop, and the latest is kept.
    await Quote.objects.aupdate_or_create(product=product, shop=shop, defaults={"price": price})
    return f"{shop}: {price:.2f} €"
