from __future__ import annotations

import pytest
from django.db import transaction

import djqueue
from djqueue import kv
from djqueue.conf import MAX_KV_VALUE_SIZE
from djqueue.models import KV
from tests.app.tasks import add
from tests.factories import KVFactory, ago
from tests.tools import claim_one, in_threads, rows, statements_sent


@pytest.mark.parametrize("value", [None, 0, "", "ü😀", [1, {"a": None}], {"z": 1, "a": 2.5}, True])
def test_values_are_read_as_they_were_written(database, value):
    kv.set("runs/42", value)
    assert kv.get("runs/42") == value


def test_a_missing_key_returns_the_default(database):
    assert kv.get("nothing") is None
    assert kv.get("nothing", default=5) == 5


def test_a_stored_null_is_not_missing(database):
    kv.set("k", None)
    assert kv.get("k", default=5) is None


def test_set_overwrites(database):
    kv.set("k", 1, expires_in=60)
    kv.set("k", 2)
    assert kv.get("k") == 2
    assert rows(KV).get().expires_at is None


def test_delete_returns_whether_the_key_existed(database):
    kv.set("k", 1)
    assert kv.delete("k") is True
    assert kv.delete("k") is False
    assert kv.get("k") is None


def test_keys_are_compared_exactly(database):
    kv.set("k", 1)
    for key in ("K", "k ", "ķ"):
        assert kv.get(key) is None


def test_an_expired_key_is_missing(database):
    KVFactory(key="old", value=1, expires_at=ago(1))
    kv.set("now", 1, expires_in=0)
    kv.set("later", 1, expires_in=60)
    assert kv.get("old", "absent") == kv.get("now", "absent") == "absent"
    assert kv.get("later") == 1
    assert kv.delete("old") is False
    assert djqueue.maintenance.sweep_kv() == 2
    assert [entry.key for entry in rows(KV).all()] == ["later"]


def test_compare_and_set(database):
    assert kv.compare_and_set("k", None, {"b": 1, "a": 2}) is True
    assert kv.compare_and_set("k", None, 5) is False
    assert kv.compare_and_set("k", {"a": 2, "b": 2}, 5) is False
    assert kv.compare_and_set("k", {"a": 2, "b": 1}, 5) is True
    assert kv.get("k") == 5
    assert kv.compare_and_set("k", 5, None) is True
    assert not rows(KV).exists()
    assert kv.compare_and_set("k", 5, 6) is False
    assert kv.compare_and_set("k", None, None) is True


def test_compare_and_set_treats_an_expired_or_null_key_as_missing(database):
    KVFactory(key="old", value=1, expires_at=ago(1))
    assert kv.compare_and_set("old", 1, 2) is False
    assert kv.compare_and_set("old", None, 3) is True
    assert kv.get("old") == 3
    kv.set("null", None)
    assert kv.compare_and_set("null", None, 1) is True


def test_compare_and_set_keeps_the_expiry(database):
    kv.set("k", 1, expires_in=60)
    kv.compare_and_set("k", 1, 2)
    assert rows(KV).get().expires_at is not None


def test_concurrent_counting_with_compare_and_set_loses_nothing(database):
    """Invariant: every concurrent writer that gets True has written its value."""

    def count(number: int) -> int:
        won = 0
        while won < 10:
            value = kv.get("counter")
            won += kv.compare_and_set("counter", value, (value or 0) + 1)
        return won

    in_threads(4, count)
    assert kv.get("counter") == 40


def test_one_of_several_concurrent_creations_wins(database):
    for n in range(5):
        assert sum(in_threads(4, lambda number, n=n: kv.compare_and_set(f"k{n}", None, number + 1))) == 1


def test_a_value_that_is_too_large_is_refused_before_any_write(database):
    largest = "x" * (MAX_KV_VALUE_SIZE - 2)
    kv.set("k", largest)
    for write in (
        lambda: kv.set("k", largest + "x"),
        lambda: kv.compare_and_set("k", largest, largest + "x"),
        lambda: add.using(kv={"k": largest + "x"}).enqueue(1),
    ):
        with pytest.raises(djqueue.KvValueTooLarge) as raised, statements_sent() as sent:
            write()
        assert (raised.value.size, raised.value.max) == (MAX_KV_VALUE_SIZE + 1, MAX_KV_VALUE_SIZE)
        assert sent == []
    assert kv.get("k") == largest


@pytest.mark.databases("postgresql", "sqlite")
def test_bad_keys_and_values_are_refused(database):
    for key in ("", "x" * 256, 5, None, "a\x00"):
        with pytest.raises((djqueue.InvalidOption, djqueue.InvalidPayload)):
            kv.set(key, 1)
        with pytest.raises((djqueue.InvalidOption, djqueue.InvalidPayload)):
            kv.get(key)
    for value, message in [({1, 2}, r"kv\['k'\] is of type set"), ({"a": float("nan")}, r"kv\['k'\]\.a is nan")]:
        with pytest.raises(djqueue.InvalidPayload, match=message):
            kv.set("k", value)
    with pytest.raises(djqueue.InvalidOption, match="expires_in"):
        kv.set("k", 1, expires_in=-1)


def test_kv_is_part_of_the_transaction(database):
    kv.set("k", 1)
    with transaction.atomic(using=database):
        kv.set("k", 2)
        assert kv.compare_and_set("new", None, 1) is True
        assert kv.compare_and_set("new", None, 1) is False
        assert kv.get("k") == 2
        transaction.set_rollback(True, using=database)
    assert (kv.get("k"), kv.get("new")) == (1, None)


def test_kv_does_not_affect_the_queue(database):
    handle = add.using(kv={"k": 1}).enqueue(1)
    kv.set("k", 2)
    kv.delete("k")
    assert handle.status() == "pending"
    claim_one().ack()
    assert kv.get("k") is None


def test_reads_and_writes_are_single_statements(database):
    for work in (lambda: kv.set("k", 1), lambda: kv.get("k"), lambda: kv.delete("k")):
        with statements_sent() as sent:
            work()
        assert len(sent) == 1


def test_values_written_through_the_model_can_be_compared(database):
    KVFactory(key="k", value={"b": 1, "a": [2]})
    assert kv.compare_and_set("k", {"a": [2], "b": 1}, 3) is True
