import djqueue
from djqueue import testing
from example_project.shop.models import Product
from example_project.shop.tasks import import_prices

from .tools import ShopTestCase


class PriceLists(ShopTestCase):
    def test_a_price_list_sets_prices(self):
        self.client.post("/office/supplier/", {"file": "autumn.csv"})
        [job] = testing.run_pending()
        self.assertEqual((job.result, str(Product.objects.get().price)), ("4 prices", "7.90"))

    def test_a_missing_file_kills_the_job_at_once(self):
        url = self.client.post("/office/supplier/", {"file": "winter.csv"}).url
        with self.assertRaises(FileNotFoundError):
            testing.run_pending()
        [job] = djqueue.Queue("suppliers").dead_jobs()
        self.assertEqual(job.attempts, 1)
        self.assertContains(self.client.get(url), f"/admin/djqueue/deadjob/{job.id}/change/")

    def test_a_dead_job_is_requeued_with_another_file(self):
        import_prices.enqueue("winter.csv")
        testing.run_pending(raise_errors=False)
        [dead] = djqueue.Queue("suppliers").dead_jobs()
        page = self.client.get(f"/admin/djqueue/deadjob/{dead.id}/change/")
        self.assertContains(page, "Requeue with other arguments")
        djqueue.requeue(dead.id, args=["autumn.csv"])
        [job] = testing.run_pending()
        self.assertEqual((job.id, job.status), (dead.id, djqueue.Status.DONE))

    def test_a_file_outside_of_the_folder_is_not_read(self):
        import_prices.enqueue("../tasks/orders.py")
        with self.assertRaises(FileNotFoundError):
            testing.run_pending()

    def test_of_two_lists_in_a_hurry_the_newest_is_imported(self):
        self.client.post("/office/supplier/", {"both": "1"})
        testing.assert_enqueued(import_prices, args=["autumn.csv"], times=1)
        self.assertEqual(testing.run_pending(), [])  # it still waits for a newer list
        [job] = testing.advance(5)
        self.assertEqual((job.args, job.status), (["autumn.csv"], djqueue.Status.DONE))
