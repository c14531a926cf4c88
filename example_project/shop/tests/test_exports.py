import re

from django.contrib.auth.models import User
from django.test import TransactionTestCase, override_settings

import djqueue
from djqueue import testing
from example_project.shop.models import Export
from example_project.shop.tasks import export_orders

from .tools import ShopTestCase, make_order


class Exports(ShopTestCase):
    def test_an_export_can_be_downloaded(self):
        order = make_order()
        page = self.client.post("/office/export/", follow=True)
        self.assertContains(page, "<djqueue-progress")
        testing.run_pending(queue="documents")
        export = Export.objects.get()
        csv = self.client.get(f"/office/export/{export.job}.csv").content.decode()
        self.assertIn(f"{order.pk},", csv)

    def test_an_export_that_waits_is_cancelled_from_its_page(self):
        page = self.client.post("/office/export/", follow=True).content.decode()
        [url] = re.findall(r'action="(/djqueue/progress/[^"]+/cancel/)"', page)
        self.client.post(url)
        [job] = testing.assert_enqueued(export_orders)
        self.assertEqual(job.status, djqueue.Status.CANCELLED)


@override_settings(SHOP_PACE=10)  # a minute for the export, so that it is cancelled while it runs
class RunningExports(TransactionTestCase):
    def test_a_running_export_is_cancelled_from_its_page(self):
        for _ in range(40):
            make_order()
        self.client.force_login(User.objects.create_superuser("grace"))
        with testing.worker(queues=["documents"]):
            response = self.client.post("/office/export/")
            handle = djqueue.JobHandle(response.url.partition("?job=")[2])
            while not handle.job().progress:  # written once a second by the worker
                handle.wait(timeout=0.1)
            page = self.client.get(response.url).content.decode()
            [url] = re.findall(r'action="(/djqueue/progress/[^"]+/cancel/)"', page)
            self.client.post(url)
            outcome = handle.wait(timeout=30)
        self.assertEqual(outcome.record.status, djqueue.Status.CANCELLED)
        self.assertFalse(Export.objects.exists())
