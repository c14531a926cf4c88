"""Arguments of every type, from enqueue to the claim; and arguments that do not fit the task."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

import djqueue
from djqueue import ModelReference, call
from djqueue.core.tags import UnstorableResult
from djqueue.models import DeadJob, DoneJob, Job, Schedule
from tests.app.models import Place, ProxyPlace, Shop, Ticket
from tests.app.tasks import add, echo, later, log_in, subtract
from tests.factories import DeadJobFactory, JobFactory
from tests.tools import claim_one, rows, statements_sent

VALUES = [
    datetime(2026, 1, 31, 9, 30, 1, 5, tzinfo=UTC),
    datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2026, 1, 31),
    date(2026, 1, 31),
    time(9, 30),
    timedelta(days=-1, microseconds=1),
    UUID("018f3b1e-0000-7000-8000-000000000001"),
    Decimal("9.90"),
    b"\x00bytes\xff",
    {"$decimal": "mine"},
    {"nested": [{"price": Decimal("1E+2")}]},
]


def test_values_of_every_type_come_back(database):
    handle = echo.enqueue(VALUES)
    [got] = handle.job().args
    assert (got, repr(got)) == (VALUES, repr(VALUES))
    job = claim_one()
    assert repr(job.args) == repr([VALUES])
    job.ack({"all": VALUES})
    assert repr(djqueue.wait(handle.id, 0).record.result) == repr({"all": VALUES})
    assert rows(DoneJob).get().result == {"all": VALUES}


def test_values_come_back_from_enqueue_many_and_requeue(database):
    handles = add.enqueue_many([call(VALUES[7], b=VALUES[0])])
    job = claim_one()
    assert (job.args, job.kwargs) == ([VALUES[7]], {"b": VALUES[0]})
    job.dead_letter("no")
    record = djqueue.requeue(handles[0].id, args=[VALUES[6]])
    assert (record.args, record.kwargs) == ([VALUES[6]], {"b": VALUES[0]})


def test_an_equal_dedup_key_is_found_whatever_the_arguments(database):
    first = echo.using(dedup_key="k").enqueue(Decimal("9.90"))
    assert echo.using(dedup_key="k").enqueue(VALUES).id == first.id


MODELS = [Place, ProxyPlace, Shop, Ticket]


@pytest.fixture
def instances(database):
    made = [model._base_manager.using(database).create() for model in MODELS]
    yield made
    for model in (Shop, Place, Ticket):
        model._base_manager.using(database).all().delete()


def test_model_instances_are_read_again_at_the_claim(database, instances):
    echo.enqueue({"all": instances})
    job = claim_one()
    [got] = job.args
    assert got == {"all": instances}
    assert [type(one) for one in got["all"]] == MODELS
    assert {one._state.db for one in got["all"]} == {database}


def test_a_deferred_or_hidden_instance_is_read_whole(database, instances):
    Place._base_manager.using(database).update(name="x", hidden=True)
    deferred = Place._base_manager.using(database).only("pk").first()
    echo.enqueue(deferred)
    [got] = claim_one().args
    assert not got.get_deferred_fields()
    assert got.name == "x"


def test_reading_a_job_does_not_read_its_model_instances(database, instances):
    place = instances[0]
    handle = echo.enqueue(place)
    place.delete(using=database)
    with statements_sent() as sent:
        record = handle.job()
    assert len(sent) == 1
    reference = record.args[0]
    assert isinstance(reference, ModelReference)
    assert (reference.label, reference.database) == ("app.Place", database)
    with pytest.raises(Place.DoesNotExist, match=f"{reference} does not exist"):
        reference.get()
    job = claim_one()
    with pytest.raises(Place.DoesNotExist):
        job.args  # noqa: B018
    job.nack("gone")
    assert handle.job().args == [reference]


def test_a_reference_can_be_enqueued_again(database, instances):
    echo.enqueue(instances[3])
    echo.enqueue(echo.enqueue(instances[3]).job().args[0])
    assert [job.args for job in djqueue.Queue("default").claim(3)] == [[instances[3]]] * 3


def test_an_unsaved_instance_is_refused(database):
    for unsaved in (Place(name="new"), Place(pk=1), Ticket()):
        with pytest.raises(djqueue.InvalidPayload, match=r"args\[0\] \(value\) is of type .* It is not saved"):
            echo.enqueue(unsaved)
    place = Place.objects.using(database).create()
    place.delete(using=database)
    with pytest.raises(djqueue.InvalidPayload, match="It is not saved"):
        echo.enqueue({"a": [place]})
    assert not rows(Job).exists()


def test_signals_pass_references(database, instances):
    heard = []

    def receive(job, **kwargs):
        heard.append((job.args, kwargs.get("result", "none")))

    names = [djqueue.signals.job_queued, djqueue.signals.job_started, djqueue.signals.job_completed]
    for signal in names:
        signal.connect(receive)
    try:
        echo.enqueue(instances[0])
        claim_one().ack(instances[0])
    finally:
        for signal in names:
            signal.disconnect(receive)
    reference = ModelReference("app.Place", database, instances[0].pk)
    assert heard == [([reference], "none"), ([reference], "none"), ([reference], reference)]


def test_a_row_with_an_invalid_tag_can_be_read_and_requeued(database):
    from djqueue.fields import Unreadable

    row = DeadJobFactory(args=Unreadable('[{"$what":1}]'))
    assert djqueue.get_job(row.id).args == '[{"$what":1}]'
    djqueue.requeue(row.id, kwargs={"b": 1})
    job = claim_one()
    with pytest.raises(djqueue.InvalidPayload, match="Unknown tag"):
        job.args  # noqa: B018
    job.nack("unreadable")


def test_schedules_take_values_of_every_type(database, instances):
    schedule = djqueue.schedules.create("s", task=echo, every=60, args=[[*VALUES, instances[3]]])
    reference = ModelReference("app.Ticket", database, instances[3].pk)
    assert schedule.args == [[*VALUES, reference]]
    assert repr(rows(Schedule).get().args) == repr([[*VALUES, reference]])
    with statements_sent() as sent:
        djqueue.schedules.run_now("s")
    assert not [sql for sql in sent if "app_ticket" in sql]
    rows(Schedule).update(next_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert djqueue.maintenance.fire_schedules() == 1
    for job in djqueue.Queue("default").claim(2):
        assert repr(job.args) == repr([[*VALUES, instances[3]]])


def test_a_declared_schedule_is_not_written_again_unless_an_argument_changed(database, monkeypatch):
    from djqueue.schedules import in_code

    def declare(price):
        declared = {"s": {"task": echo.name, "every": 60, "args": [Decimal(price)]}}
        monkeypatch.setattr(in_code, "declarations", lambda: declared)
        return djqueue.schedules.synchronise()

    changed = [declare(price) for price in ("NaN", "NaN", "1.0", "1.00", "1.00")]
    assert changed == [1, 0, 1, 1, 0]
    assert str(rows(Schedule).get().args[0]) == "1.00"


# Arguments that do not fit


def by_name(*args, **kwargs):
    return djqueue.enqueue("tests.app.tasks.subtract", args, kwargs)


FORMS = {
    "enqueue": subtract.enqueue,
    "delay": subtract.delay,
    "using": subtract.using(queue="q").enqueue,
    "on_commit": subtract.using(on_commit=True).enqueue,
    "aenqueue": async_to_sync(subtract.aenqueue),
    "enqueue_many": lambda *args, **kwargs: subtract.enqueue_many([call(1), call(*args, **kwargs)]),
    "mixed enqueue_many": lambda *args, **kwargs: djqueue.enqueue_many(
        [subtract.call(1), subtract.call(*args, **kwargs)]
    ),
    "lazy enqueue_many": lambda *args, **kwargs: subtract.enqueue_many(call(*args, **kwargs) for _ in range(1)),
    "on_commit enqueue_many": lambda *a, **kw: subtract.using(on_commit=True).enqueue_many([call(1), call(*a, **kw)]),
    "by name": by_name,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.databases("postgresql", "sqlite", "mysql")
def test_arguments_that_do_not_fit_are_refused_before_anything_is_written(database, form):
    enqueue = FORMS[form]
    for args, kwargs, mistake in [
        ((), {}, "missing 'a'"),
        ((1, 2, 3), {}, "at most 2 positional arguments are accepted, got 3"),
        ((1,), {"bb": 2}, "unexpected argument 'bb'"),
        ((1,), {"delay": 10}, r"use subtract.using\(delay=10\).enqueue\(...\)"),
    ]:
        with pytest.raises(djqueue.InvalidArguments, match=mistake) as error, transaction.atomic(using=database):
            enqueue(*args, **kwargs)
        assert "tests.app.tasks.subtract(a, b=...)" in str(error.value)
        if "enqueue_many" in form:
            assert str(error.value).startswith("item 0: " if form.startswith("lazy") else "item 1: ")
    assert not rows(Job).exists()


def test_a_bad_call_late_in_a_batch_leaves_nothing(database):
    with pytest.raises(djqueue.InvalidArguments, match="item 2500: "):
        subtract.enqueue_many(call(*[n] * (1 if n != 2500 else 3)) for n in range(3000))
    assert not rows(Job).exists()


def test_a_task_that_is_not_registered_here_is_not_checked(database):
    assert djqueue.enqueue("elsewhere.task", args=[1, 2, 3], kwargs={"delay": 10}).created


def test_schedules_with_arguments_that_do_not_fit_are_refused(database):
    with pytest.raises(djqueue.InvalidOption, match="missing 'a'"):
        djqueue.schedules.create("s", task=subtract, every=60)
    assert (
        "unexpected argument 'c'" in djqueue.schedules.problems("s", task=subtract, every=60, kwargs={"c": 1})["args"]
    )
    djqueue.schedules.create("s", task=subtract, every=60, args=[1])
    with pytest.raises(djqueue.InvalidOption, match="got 3"):
        djqueue.schedules.update("s", args=[1, 2, 3])
    assert rows(Schedule).get().args == [1]


def test_a_schedule_of_another_release_still_fires(database):
    """Its row may have arguments for a newer version of the task than this process has."""
    djqueue.schedules.create("s", task=subtract, every=60, args=[1])
    rows(Schedule).update(args=[1, 2, 3], next_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert djqueue.maintenance.fire_schedules() == 1
    assert rows(Schedule).get().enabled


def test_a_requeue_with_arguments_that_do_not_fit_is_refused(database):
    row = DeadJobFactory(task="tests.app.tasks.subtract", args=[1], kwargs={"b": 2})
    with pytest.raises(djqueue.InvalidArguments, match="'b' is given twice"):
        djqueue.requeue(row.id, args=[1, 2])
    assert rows(DeadJob).exists()
    djqueue.requeue(row.id, args=[1, 2], kwargs={})


def test_a_task_without_restrictions_takes_anything(database):
    assert later.enqueue().created
    assert log_in.enqueue("ada", password="x", remember=True).created


def test_an_unstorable_result_can_be_passed_on(database):
    marker = UnstorableResult("set", "{1}", "no")
    echo.enqueue(marker)
    assert claim_one().args == [marker]


def test_a_row_written_by_hand_cannot_name_more_than_a_model(database):
    from djqueue.fields import Unreadable

    row = JobFactory(args=Unreadable('[{"$model":["tests.app.models.Place","default",1]}]'))
    job = claim_one()
    assert job.id == row.id
    with pytest.raises(djqueue.InvalidPayload, match="Unknown model"):
        job.args  # noqa: B018
