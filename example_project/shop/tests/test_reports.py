from datetime import timedelta
from zoneinfo import ZoneInfo

import djqueue
from djqueue import testing
from example_project.shop.models import Order, Report
from example_project.shop.tasks import write_report

from .tools import ShopTestCase, make_order


class Reports(ShopTestCase):
    def test_a_report_is_written_at_two_every_night(self):
        testing.advance(1)  # writes the schedules of the code, as a worker does when it starts
        djqueue.schedules.disable("recount-sales")  # which would fire 8640 times
        jobs = [job for job in testing.advance(timedelta(days=3)) if job.task == write_report.name]
        slots = [job.slot.astimezone(ZoneInfo("Europe/Berlin")) for job in jobs if job.slot]
        self.assertEqual([slot.hour for slot in slots], [2, 2, 2])
        days = [slot.astimezone(ZoneInfo("UTC")).date() - timedelta(days=1) for slot in slots]
        self.assertEqual(list(Report.objects.order_by("day").values_list("day", flat=True)), days)

    def test_a_report_counts_the_paid_orders_of_the_day_before(self):
        for days in (0, 1, 1, 2):
            order = make_order()
            Order.objects.filter(pk=order.pk).update(placed_at=order.placed_at - timedelta(days=days))
        testing.run_pending()
        make_order()  # not paid
        write_report.enqueue()
        [*_, job] = testing.run_pending(queue="documents")
        report = Report.objects.get()
        self.assertEqual((report.orders, str(report.revenue)), (2, "33.60"))
        self.assertIn("2 orders", job.result)

    def test_the_schedule_can_be_run_now(self):
        self.assertContains(self.client.post("/office/report/", follow=True), "Is a worker running?")
        testing.advance(1)  # writes the schedules of the code, as a worker does when it starts
        page = self.client.post("/office/report/", follow=True)
        testing.assert_enqueued(write_report, times=1)
        self.assertContains(page, "Open the job in the admin")
