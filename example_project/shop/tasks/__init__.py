"""The tasks of the shop, by subject. djqueue imports this module, so it has to import them all.

A job runs at least once: after a crash it runs again. So each task can run twice without harm, and says how.
"""

from .customers import send_welcome, suggest_tea
from .exports import export_orders
from .letters import send_letter
from .orders import charge, mail_invoice, write_invoice
from .partners import notify_partner
from .prices import ask_shop, compare_prices
from .reports import write_report
from .sales import recount_sales
from .suppliers import import_prices

__all__ = [
    "ask_shop",
    "charge",
    "compare_prices",
    "export_orders",
    "import_prices",
    "mail_invoice",
    "notify_partner",
    "recount_sales",
    "send_letter",
    "send_welcome",
    "suggest_tea",
    "write_invoice",
    "write_report",
]
