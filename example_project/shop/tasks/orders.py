"""An order is charged, then invoiced, then the invoice is mailed: each step enqueues the next."""

from __future__ import annotations

from django.core.mail import EmailMessage
from django.db import transaction
from django.utils import timezone

import djqueue
from example_project.shop import pdf, pretend
from example_project.shop.models import Invoice, Order


def payment_failed(job: djqueue.JobRecord, attempts: int) -> None:
    """Called when a payment is dead."""
    Order.objects.filter(pk=job.args[0], status=Order.Status.NEW).update(status=Order.Status.UNPAID)


@djqueue.task(
    queue="payments",
    priority=djqueue.HIGH,
    max_attempts=5,
    retry=djqueue.Exponential(base=2, max=60),
    on_dead=payment_failed,
)
def charge(order_id: int) -> str:
    order = Order.objects.get(pk=order_id)
    try:
        # Safe to repeat: the bank charges once for each key. An exception is a failed attempt, which is retried.
        receipt = pretend.charge_card(f"order-{order_id}", order.card, order.total)
    except pretend.CardDeclined as error:
        raise djqueue.PermanentFailure(str(error)) from error  # no retry would help
    with transaction.atomic():
        # Safe to repeat: only the first run finds an order that is not paid, and enqueues the invoice.
        if Order.objects.filter(pk=order_id).exclude(status=Order.Status.PAID).update(status=Order.Status.PAID):
            invoice_job = write_invoice.enqueue(order_id).id
            Order.objects.filter(pk=order_id).update(invoice_job=invoice_job)
    return receipt


@djqueue.task(queue="documents")
def write_invoice(order_id: int) -> None:
    order = Order.objects.select_related("product").get(pk=order_id)
    lines = pdf.invoice_lines(order)
    for number, line in enumerate(lines, 1):
        pretend.work(0.6)
        djqueue.current_job().progress(number, len(lines), f"Writing “{line}”")
    with transaction.atomic():
        # Safe to repeat: only the first run creates the invoice, and enqueues the mail.
        _, created = Invoice.objects.get_or_create(order=order, defaults={"pdf": pdf.document(lines)})
        if created:
            mail_invoice.enqueue(order_id)


@djqueue.task(queue="mail")
def mail_invoice(order_id: int) -> str:
    order = Order.objects.select_related("invoice").get(pk=order_id)
    if order.mailed_at:
        return "already sent"
    mail = EmailMessage(f"Your invoice for {order}", "Thank you for your order.", to=[order.email])
    mail.attach(f"invoice-{order_id}.pdf", bytes(order.invoice.pdf), "application/pdf")
    mail.send()
    # A crash at this very point sends the mail a second time: a mail and a row cannot be written at once.
    Order.objects.filter(pk=order_id).update(mailed_at=timezone.now())
    return f"sent to {order.email}"
