from django.test import AsyncClient

from djqueue import testing
from example_project.shop.models import Quote
from example_project.shop.tasks import ask_shop, compare_prices
from example_project.shop.tasks.prices import SHOPS

from .tools import ShopTestCase


class Prices(ShopTestCase):
    def test_one_job_creates_one_for_each_shop(self):
        url = self.client.post("/office/prices/", {"product": self.product.pk}).url
        testing.run_pending()
        testing.assert_enqueued(ask_shop, times=len(SHOPS))
        self.assertEqual(set(Quote.objects.values_list("shop", flat=True)), set(SHOPS))
        self.assertContains(self.client.get(url), "Assam: 15 of 15 shops have answered")

    def test_a_shop_that_is_asked_twice_has_one_quote(self):
        ask_shop.enqueue_many([ask_shop.call(self.product.pk, "Alpine Tea")] * 2)
        testing.run_pending()
        self.assertEqual(Quote.objects.count(), 1)

    async def test_async_code_enqueues_without_blocking(self):
        await compare_prices.aenqueue(self.product.pk)
        jobs = await testing.arun_pending()
        self.assertEqual(len(jobs), 1 + len(SHOPS))
        self.assertEqual((await AsyncClient().get("/")).status_code, 200)
