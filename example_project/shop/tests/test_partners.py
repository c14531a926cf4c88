from unittest import mock

from django.contrib.auth.models import User
from django.test import LiveServerTestCase, override_settings

import djqueue
from djqueue import testing
from example_project.shop.tasks import notify_partner

from .tools import ShopTestCase, make_order


class Limits(ShopTestCase):
    def test_two_requests_at_a_time_are_admitted(self):
        for _ in range(12):
            make_order()
        page = self.client.post("/office/partner/", {"ten": "1"}, follow=True)
        testing.assert_enqueued(notify_partner, times=10)
        self.assertContains(page, "10 blocked")
        self.assertEqual(djqueue.maintenance.admit(), 2)
        limit = djqueue.limits.get("partner")
        self.assertEqual((limit.admitted, limit.blocked), (2, 8))

    def test_a_permit_is_handed_on_when_a_request_ends(self):
        orders = [make_order() for _ in range(3)]
        jobs = [notify_partner.enqueue(order.pk) for order in orders]
        with mock.patch("example_project.shop.tasks.partners.urlopen") as urlopen:
            urlopen.return_value.__enter__.return_value.status = 200
            testing.run_pending(queue="partners")
        self.assertEqual([job.status() for job in jobs], [djqueue.Status.DONE] * 3)


class Partners(LiveServerTestCase):
    def test_a_busy_partner_is_asked_until_it_answers(self):
        """A real worker asks a real server: the task fails twice and is retried with a growing delay."""
        make_order()
        self.client.force_login(User.objects.create_superuser("grace"))
        url = self.client.post("/office/partner/").url
        with override_settings(PARTNER_URL=f"{self.live_server_url}/partner/"), testing.worker(queues=["partners"]):
            outcome = djqueue.wait(url.partition("?job=")[2], timeout=60)
        job = outcome.record
        self.assertEqual((job.result, job.attempts), ("200: Thank you.", 3))
        self.assertEqual([error["message"] for error in job.errors], ["HTTP Error 503: Service Unavailable"] * 2)
        self.assertContains(self.client.get(url), "Attempt 2: HTTP Error 503")

    def test_the_partner_answers_only_to_posts(self):
        self.assertEqual(self.client.get("/partner/").status_code, 405)
