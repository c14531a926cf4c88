"""A payment service that keeps requests by their idempotency key, as real ones do."""

from __future__ import annotations

from decimal import Decimal

carried_out: dict[str, Decimal] = {}


def charge(amount: Decimal, *, idempotency_key: str, timeout: float) -> None:
    carried_out.setdefault(idempotency_key, amount)
