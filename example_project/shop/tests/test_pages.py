"""What all pages have in common."""

import inspect

from django.test import Client

from example_project.shop.pages import source
from example_project.shop.tasks import export_orders
from example_project.shop.views.office import PAGES

from .tools import ShopTestCase

OPEN = ["/", "/orders/"]
OFFICE = ["/office/", *[f"/office/{name}/" for name, *_ in PAGES]]


class Pages(ShopTestCase):
    def test_every_page_has_a_strict_policy(self):
        for path in OPEN + OFFICE:
            response = self.client.get(path)
            self.assertEqual(response.status_code, 200, path)
            self.assertIn("default-src 'none'; script-src 'self'", response["Content-Security-Policy"])

    def test_every_page_of_the_back_office_shows_its_code(self):
        for path in OFFICE[1:]:
            self.assertContains(self.client.get(path), '<span class="keyword">def</span>', msg_prefix=path)

    def test_the_code_is_that_of_the_task(self):
        self.assertEqual(source(export_orders), inspect.getsource(export_orders.func))
        self.assertContains(self.client.get("/office/export/"), "job.raise_if_cancelled()")

    def test_the_back_office_is_for_the_staff(self):
        for path in OFFICE:
            self.assertRedirects(Client().get(path), f"/admin/login/?next={path}")

    def test_a_job_that_does_not_exist_is_no_error(self):
        for job in ("no-uuid", "018f3b1e-0000-7000-8000-000000000001"):
            self.assertEqual(self.client.get("/office/export/", {"job": job}).status_code, 200)

    def test_the_login_is_shown_by_the_demo_only(self):
        self.assertNotContains(self.client.get("/"), "password")
