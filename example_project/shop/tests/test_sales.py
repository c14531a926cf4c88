from datetime import timedelta

from djqueue import testing
from example_project.shop.models import Product
from example_project.shop.tasks import recount_sales

from .tools import ShopTestCase, make_order


class Sales(ShopTestCase):
    def press(self):
        return self.client.post("/office/recount/", follow=True).content.decode()

    def test_pressing_the_button_often_creates_one_job(self):
        self.assertIn("A job was created.", self.press())
        for _ in range(5):
            self.assertIn("Already queued: no job was created.", self.press())
        testing.assert_enqueued(recount_sales, times=1)

    def test_a_finished_job_does_not_block_the_next(self):
        self.press()
        testing.run_pending()
        self.assertIn("A job was created.", self.press())

    def test_paid_orders_are_counted(self):
        make_order()
        testing.run_pending()
        make_order()  # not paid
        recount_sales.enqueue()
        testing.run_pending(queue="default")
        self.assertEqual(Product.objects.get().sold, 2)

    def test_sales_are_recounted_twice_a_minute(self):
        jobs = testing.advance(timedelta(minutes=2))
        self.assertEqual(len([job for job in jobs if job.schedule == "recount-sales"]), 4)
