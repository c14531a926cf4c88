"""Tests with pytest and djqueue's fixtures: `pytest --ds=example_project.settings example_project`."""

from __future__ import annotations

from typing import Any

import pytest

import djqueue
from djqueue import testing
from example_project.shop.models import Order
from example_project.shop.tasks import charge, recount_sales

from .tools import make_order


@pytest.fixture(autouse=True)
def _without_delays(settings: Any):
    settings.SHOP_PACE = 0


def test_jobs_are_captured(djqueue_jobs: list[djqueue.JobRecord]):
    order = make_order()
    recount_sales.using(delay=60).enqueue()
    assert [(job.task, job.args) for job in djqueue_jobs] == [(charge.name, [order.pk]), (recount_sales.name, [])]


@pytest.mark.django_db
def test_jobs_run_in_the_transaction_of_the_test():
    order = make_order()
    testing.run_pending()
    order.refresh_from_db()
    assert order.status == Order.Status.PAID


@pytest.mark.usefixtures("djqueue_eager")
def test_jobs_run_at_once():
    assert recount_sales.enqueue().status() == "done"


@pytest.mark.usefixtures("djqueue_worker")
def test_jobs_run_in_a_worker():
    order = make_order()
    assert order.payment_job
    assert djqueue.wait(order.payment_job, timeout=20).completed
    order.refresh_from_db()
    assert order.status == Order.Status.PAID
