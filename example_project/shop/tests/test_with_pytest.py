"""The shop's tests with pytest and djqueue's fixtures: `pytest --ds=example_project.settings example_project`."""

from djqueue import testing
from example_project.shop.models import Order
from example_project.shop.tasks import charge, send_welcome


def test_jobs_are_captured(djqueue_jobs):
    send_welcome.enqueue("ada@example.com")
    charge.using(delay=60).enqueue(1)
    assert [(job.task, job.args) for job in djqueue_jobs] == [
        (send_welcome.name, ["ada@example.com"]),
        (charge.name, [1]),
    ]


def test_jobs_run_in_the_transaction_of_the_test(db):
    order = Order.objects.create(email="ada@example.com", total="9.90")
    charge.enqueue(order.pk)
    testing.advance(2)
    order.refresh_from_db()
    assert order.paid


def test_jobs_run_at_once(djqueue_eager):
    assert send_welcome.enqueue("ada@example.com").status() == "done"


def test_jobs_run_in_a_worker(djqueue_worker):
    order = Order.objects.create(email="ada@example.com", total="9.90")
    assert charge.enqueue(order.pk).wait(timeout=20).completed
    order.refresh_from_db()
    assert order.paid
