"""Stand-ins for what a real shop has: work that takes time, a bank, and a partner whose server is not always up."""

from __future__ import annotations

import asyncio
import time
from decimal import Decimal

from django.conf import settings

from djqueue import kv

from .models import Card

HOUR = 3600


def work(seconds: float) -> None:
    """Take as long as real work would."""
    time.sleep(seconds * settings.SHOP_PACE)


async def awork(seconds: float) -> None:
    await asyncio.sleep(seconds * settings.SHOP_PACE)


class BankUnavailable(Exception):
    """The bank did not answer: a later attempt may succeed."""


class CardDeclined(Exception):
    """The bank has answered: no attempt will succeed."""


def charge_card(key: str, card: str, amount: Decimal) -> str:
    """Charge a card, once for each key however often it is asked, as payment services do. Return the receipt."""
    work(0.3)
    if card == Card.EXPIRED:
        raise CardDeclined(f"The card has expired; {amount} € were not charged.")
    if card == Card.SLOW and calls_of(f"bank/{key}") <= 2:
        raise BankUnavailable("The bank did not answer within 300 ms.")
    return f"receipt {key}"


def calls_of(key: str) -> int:
    """Count a call, and return how many there were."""
    calls = int(kv.get(key, 0)) + 1
    kv.set(key, calls, expires_in=HOUR)
    return calls
