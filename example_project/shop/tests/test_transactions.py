from django.core import mail

from djqueue import testing
from example_project.shop.models import Customer
from example_project.shop.tasks import send_welcome, suggest_tea

from .tools import ShopTestCase


class SigningUp(ShopTestCase):
    def test_a_committed_customer_is_welcomed(self):
        # A TestCase never commits, so Django has to call what waits for the commit.
        with self.captureOnCommitCallbacks(execute=True):
            url = self.client.post("/office/transaction/").url
        testing.assert_enqueued(send_welcome)
        testing.assert_enqueued(suggest_tea)
        testing.run_pending()
        customer = Customer.objects.get()
        self.assertEqual((mail.outbox[0].to, customer.suggestion), ([customer.email], self.product))
        self.assertContains(self.client.get(f"/office/transaction/{url}"), "Committed")

    def test_a_rollback_takes_the_jobs_with_it(self):
        with self.captureOnCommitCallbacks(execute=True):
            url = self.client.post("/office/transaction/", {"fail": "1"}).url
        testing.assert_not_enqueued(send_welcome)
        testing.assert_not_enqueued(suggest_tea)
        self.assertFalse(Customer.objects.exists())
        self.assertContains(self.client.get(f"/office/transaction/{url}"), "There is no job", count=2)

    def test_a_customer_is_welcomed_once(self):
        customer = Customer.objects.create(name="Ada", email="ada@example.com")
        send_welcome.enqueue(customer.pk)
        send_welcome.enqueue(customer.pk)
        testing.run_pending()
        self.assertEqual(len(mail.outbox), 1)
