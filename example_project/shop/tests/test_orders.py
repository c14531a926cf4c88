"""An order is charged, invoiced and mailed."""

from datetime import timedelta

from django.core import mail
from django.test import Client

import djqueue
from djqueue import testing
from example_project.shop.models import Card, Order
from example_project.shop.tasks import charge, mail_invoice, write_invoice

from .tools import ShopTestCase, make_order


class Ordering(ShopTestCase):
    def test_an_order_is_placed_with_its_payment(self):
        fields = {"product": self.product.pk, "quantity": 3, "email": "ada@example.com", "card": "good"}
        response = self.client.post("/", fields)
        order = Order.objects.get()
        self.assertRedirects(response, order.get_absolute_url())
        [job] = testing.assert_enqueued(charge, args=[order.pk], queue="payments", priority=djqueue.HIGH, times=1)
        self.assertEqual((order.payment_job, str(order.total)), (job.id, "25.20"))

    def test_a_bad_order_creates_nothing(self):
        fields = {"product": self.product.pk, "quantity": 0, "email": "ada", "card": "stolen"}
        self.assertContains(self.client.post("/", fields), "Enter a valid email address.")
        self.assertFalse(Order.objects.exists())
        testing.assert_not_enqueued(charge)

    def test_a_paid_order_is_invoiced_and_mailed(self):
        order = make_order()
        jobs = testing.run_pending()
        self.assertEqual([job.task for job in jobs], [charge.name, write_invoice.name, mail_invoice.name])
        [message] = mail.outbox
        self.assertEqual(message.to, ["ada@example.com"])
        page = self.client.get(order.get_absolute_url())
        self.assertContains(page, "Open the invoice (PDF)")
        pdf = self.client.get(f"/orders/{order.pk}/invoice.pdf").content
        self.assertTrue(pdf.startswith(b"%PDF-1.4"))
        self.assertIn(b"Total: 16.80 \x80", pdf)

    def test_an_invoice_reports_its_progress(self):
        order = make_order()
        testing.run_pending()
        order.refresh_from_db()
        job = djqueue.get_job(order.invoice_job)
        self.assertEqual(job.progress["done"], job.progress["total"])

    def test_a_slow_bank_is_asked_again(self):
        order = make_order(Card.SLOW)
        testing.run_pending(raise_errors=False)
        self.assertContains(self.client.get(order.get_absolute_url()), "Attempt 1: The bank did not answer")
        testing.advance(timedelta(minutes=1))
        order.refresh_from_db()
        self.assertEqual((order.status, djqueue.get_job(order.payment_job).attempts), (Order.Status.PAID, 3))

    def test_an_expired_card_is_not_tried_again(self):
        order = make_order(Card.EXPIRED)
        with self.assertRaisesMessage(djqueue.PermanentFailure, "The card has expired; 16.80 € were not charged."):
            testing.run_pending()
        order.refresh_from_db()
        self.assertEqual(order.status, Order.Status.UNPAID)
        self.assertEqual(djqueue.get_job(order.payment_job).status, djqueue.Status.DEAD)

    def test_each_step_can_run_twice(self):
        order = make_order()
        testing.run_pending()
        for task in (charge, write_invoice, mail_invoice):
            task.enqueue(order.pk)
            self.assertEqual(len(testing.run_pending()), 1, f"{task} has enqueued its next step again")
        self.assertEqual(len(mail.outbox), 1)

    def test_visitors_see_their_own_orders_only(self):
        order = make_order()
        stranger = Client()
        for path in (order.get_absolute_url(), f"/orders/{order.pk}/invoice.pdf"):
            self.assertEqual(stranger.get(path).status_code, 404)
        self.assertNotContains(stranger.get("/orders/"), order.get_absolute_url())
        fields = {"product": self.product.pk, "quantity": 1, "email": "ada@example.com", "card": "good"}
        self.assertContains(stranger.post("/", fields, follow=True), "Payment: waiting")
        self.assertContains(stranger.get("/orders/"), f"/orders/{order.pk + 1}/")
