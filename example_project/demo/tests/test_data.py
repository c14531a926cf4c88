from django.contrib.auth import authenticate
from django.test import TestCase

from example_project.demo import data
from example_project.demo.management.commands.demo_traffic import ACTS
from example_project.shop.models import Customer, Order, Product


class Data(TestCase):
    def test_a_second_run_adds_nothing(self):
        data.create()
        counts = [model.objects.count() for model in (Product, Customer, Order)]
        data.create()
        self.assertEqual([model.objects.count() for model in (Product, Customer, Order)], counts)
        self.assertEqual(counts[:2], [8, 60])

    def test_the_user_can_log_in(self):
        data.create()
        self.assertIsNotNone(authenticate(username="demo", password="demo"))

    def test_every_act_of_the_traffic_says_what_it_does(self):
        data.create()
        for act in ACTS:
            self.assertRegex(act(), r"^[A-Z].{10,}", act.__name__)
