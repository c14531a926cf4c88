"""A job that dies, because the file that it is to import does not exist; and one that waits for a newer file."""

from __future__ import annotations

import csv
from pathlib import Path

import djqueue
from example_project.shop.models import Product

PRICE_LISTS = Path(__file__).parent.parent / "pricelists"


@djqueue.task(queue="suppliers", max_attempts=1)
def import_prices(name: str) -> str:
    path = PRICE_LISTS / Path(name).name
    if not path.exists():
        raise FileNotFoundError(f"There is no price list {name}.")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        # Safe to repeat: the price is set. To raise it by a percentage would not be.
        Product.objects.filter(name=row["product"]).update(price=row["price"])
    return f"{len(rows)} prices"


def import_newest(name: str) -> djqueue.JobHandle:
    """Import a list in three seconds, unless a newer one arrives until then: it takes the place of this one."""
    call = import_prices.using(dedup_key="newest", delay=3, on_duplicate="replace", max_wait=30)
    return call.enqueue(name)
