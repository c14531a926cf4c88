"""The shop's tests with Django's test cases: `python manage.py test example_project`."""

from datetime import timedelta

from django.test import TestCase, TransactionTestCase

import djqueue
from djqueue import testing
from example_project.shop.models import Order
from example_project.shop.tasks import charge, count_unpaid, import_feed, send_newsletter, send_welcome


class Orders(TestCase):
    def setUp(self):
        self.order = Order.objects.create(email="ada@example.com", total="9.90")

    def test_a_welcome_is_enqueued(self):
        send_welcome.enqueue(self.order.email)
        testing.assert_enqueued(send_welcome, args=["ada@example.com"], queue="email", times=1)
        testing.assert_not_enqueued(charge)

    def test_a_welcome_is_sent(self):
        send_welcome.enqueue(self.order.email)
        [job] = testing.run_pending()
        self.assertEqual(job.result, "welcomed ada@example.com")

    def test_the_first_charge_fails(self):
        charge.enqueue(self.order.pk)
        with self.assertRaisesMessage(ConnectionError, "payment service not available"):
            testing.run_pending()

    def test_a_failed_charge_is_retried(self):
        handle = charge.enqueue(self.order.pk)
        testing.advance(timedelta(seconds=2))
        self.assertEqual((handle.status(), handle.job().attempts), (djqueue.Status.DONE, 2))
        self.order.refresh_from_db()
        self.assertTrue(self.order.paid)

    def test_a_missing_feed_is_not_retried(self):
        handle = import_feed.enqueue("orders.csv")
        testing.run_pending(raise_errors=False)
        self.assertEqual((handle.status(), handle.job().last_error), (djqueue.Status.DEAD, "no feed at orders.csv"))

    def test_unpaid_orders_are_counted_four_times_an_hour(self):
        jobs = [job for job in testing.advance(timedelta(hours=1)) if job.task == count_unpaid.name]
        self.assertEqual([job.result for job in jobs], [1, 1, 1, 1])
        self.assertEqual({job.slot.minute for job in jobs}, {0, 15, 30, 45})

    def test_a_welcome_that_waits_for_the_commit(self):
        """TestCase never commits, so Django has to call what waits for the commit."""
        with testing.eager(), testing.capture_jobs() as jobs, self.captureOnCommitCallbacks(execute=True):
            send_welcome.using(on_commit=True).enqueue(self.order.email)
            self.assertEqual(jobs, [])
        self.assertEqual([job.task for job in jobs], [send_welcome.name])
        testing.assert_enqueued(send_welcome, args=[self.order.email])

    async def test_async(self):
        await send_welcome.aenqueue(self.order.email)
        await testing.aassert_enqueued(send_welcome)
        [job] = await testing.arun_pending()
        self.assertEqual(job.status, djqueue.Status.DONE)


class CommittedOrders(TransactionTestCase):
    def test_a_newsletter_is_sent_at_once(self):
        with testing.eager():
            handle = send_newsletter.enqueue("all customers")
        self.assertEqual(handle.job().result, "wrote to all customers")

    def test_jobs_run_in_a_worker(self):
        with testing.worker():
            outcome = send_welcome.enqueue("ada@example.com").wait(timeout=20)
        self.assertEqual(outcome.record.result, "welcomed ada@example.com")

    async def test_async(self):
        with testing.capture_jobs() as jobs:
            await send_welcome.using(delay=60).aenqueue("ada@example.com")
        self.assertEqual(jobs[0].args, ["ada@example.com"])
        [job] = [job for job in await testing.aadvance(60) if job.queue == "email"]
        self.assertEqual(job.status, djqueue.Status.DONE)
