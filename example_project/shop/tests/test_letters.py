from django.core import mail

from djqueue import testing
from example_project.shop.models import Delivery
from example_project.shop.tasks import send_letter

from .tools import ShopTestCase, make_customers


class Newsletters(ShopTestCase):
    def test_a_newsletter_is_one_job_for_each_customer(self):
        customers = make_customers(5)
        with testing.capture_jobs() as jobs:
            self.client.post("/office/newsletter/", {"subject": "New tea"})
        self.assertEqual({job.args[1] for job in jobs}, {customer.pk for customer in customers})
        testing.run_pending()
        self.assertEqual({message.to[0] for message in mail.outbox}, {customer.email for customer in customers})
        self.assertContains(self.client.get("/office/newsletter/"), "5 of 5 sent")

    def test_a_letter_is_not_sent_twice(self):
        make_customers(1)
        self.client.post("/office/newsletter/", {"subject": "New tea"})
        testing.run_pending()
        delivery = Delivery.objects.get()
        send_letter.enqueue(delivery.newsletter_id, delivery.customer_id)
        [job] = testing.run_pending()
        self.assertEqual((job.result, len(mail.outbox)), ("already sent", 1))

    def test_a_newsletter_without_a_subject_is_not_sent(self):
        make_customers(1)
        self.client.post("/office/newsletter/", {"subject": ""})
        testing.assert_not_enqueued(send_letter)
