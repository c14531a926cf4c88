"""Arguments, headers, results and errors: a job runs with equal values, or it is refused before anything is written."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from hypothesis import given
from hypothesis import strategies as st

import djqueue
from djqueue import kv, testing
from djqueue.core.tags import UnstorableResult
from djqueue.models import Job
from tests.bad_input.strategies import (
    HOSTILE_TEXTS,
    HOSTILE_VALUES,
    any_text,
    anything,
    every_database,
    examples,
    plain_text,
    values,
)
from tests.bad_input.tasks import ENDS, end, give_back
from tests.tools import eventually, rows

pytestmark = every_database
REFUSED = (djqueue.InvalidPayload, djqueue.InvalidOption, djqueue.InvalidArguments, djqueue.KvValueTooLarge)


def as_stored(value: Any) -> Any:
    """Return the value as JSON gives it back: sequences are lists, subclasses are lost."""
    if isinstance(value, dict):
        return {key: as_stored(item) for key, item in value.items()}
    return [as_stored(item) for item in value] if isinstance(value, list | tuple) else value


@given(
    args=st.lists(values, max_size=3),
    kwargs=st.dictionaries(any_text, values, max_size=2),
    headers=st.none() | st.dictionaries(plain_text, st.booleans() | plain_text, max_size=2) | values,
)
@examples(100)
def test_a_call_runs_with_equal_values_or_is_refused(database, args, kwargs, headers):
    with transaction.atomic(using=database):
        try:
            handle = djqueue.enqueue(give_back.name, args, kwargs, headers=headers)
        except REFUSED:
            assert not rows(Job).exists()
            handle = give_back.enqueue()
            args, kwargs, headers = [], {}, {}
        [record] = testing.run_pending()
        assert (record.id, record.status) == (handle.id, "done")
        assert repr(record.args) == repr(as_stored(args))
        assert repr(record.kwargs) == repr(as_stored(kwargs))
        assert repr(record.headers) == repr(headers or {})
        assert repr(record.result) == repr([record.args, record.kwargs])
        transaction.set_rollback(True, using=database)


def test_hostile_arguments_run_or_are_refused(database):
    for value in HOSTILE_VALUES:
        with transaction.atomic(using=database):
            for call in (lambda: give_back.enqueue(value), lambda: give_back.enqueue(a=[value])):
                try:
                    call()
                except REFUSED:
                    continue
            for record in testing.run_pending():
                assert record.status == "done"
                assert repr(record.result) in (repr([[as_stored(value)], {}]), repr([[], {"a": [as_stored(value)]}]))
            transaction.set_rollback(True, using=database)


@given(key=any_text, value=values, other=values)
@examples(100)
def test_a_kv_value_is_read_as_it_was_written_or_is_refused(database, key, value, other):
    with transaction.atomic(using=database):
        kv.set("neighbour", 1)
        try:
            kv.set(key, value)
        except REFUSED:
            assert kv.get("neighbour") == 1
        else:
            assert repr(kv.get(key)) == repr(as_stored(value))
            changed = False
            try:
                changed = kv.compare_and_set(key, value, other)
            except REFUSED:
                pass
            assert repr(kv.get(key)) == repr(as_stored(other if changed else value))
            kv.delete(key)
            assert kv.get(key) is None
        transaction.set_rollback(True, using=database)


def test_kv_keys_that_look_alike_are_different_keys(database):
    keys = ["a", "A", "a ", " a", "\u00e4", "a\u0308", "\u00df", "ss", "\u0130", "i", "\U0001f4a5"]
    for key in keys:
        kv.set(key, key)
    assert [kv.get(key) for key in keys] == keys


class Nameless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __repr__(self) -> str:
        raise RuntimeError("no repr either")


class NotAText(Exception):
    def __str__(self) -> Any:
        return 5


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit("in the text of an exception")


class BadRepr:
    def __repr__(self) -> str:
        raise ValueError("no repr")


class EndlessRepr:
    def __repr__(self) -> str:
        return repr(self)


def caused(depth: int) -> Exception:
    error: Exception = ValueError("first")
    for number in range(depth):
        outer = ValueError(f"{number}")
        outer.__cause__, error = error, outer
    return error


def in_a_circle() -> Exception:
    one, two = ValueError("one"), ValueError("two")
    one.__context__, two.__context__ = two, one
    return one


HOSTILE_ENDS = [
    *HOSTILE_VALUES,
    BadRepr(),
    EndlessRepr(),
    [BadRepr()],
    *(ValueError(text) for text in HOSTILE_TEXTS),
    Nameless(),
    NotAText(),
    Exits(),
    ValueError(BadRepr()),
    ValueError(EndlessRepr()),
    KeyError("\ud800"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "\x00"),
    ExceptionGroup("\x00", [ValueError("a"), ExceptionGroup("b", [KeyError("\ud800")])]),
    caused(500),
    in_a_circle(),
    RecursionError("deep"),
    MemoryError(),
    StopIteration(1),
    GeneratorExit(),
    djqueue.Retry("\x00\ud800"),
    djqueue.Retry(delay=float("nan")),
    djqueue.Retry(delay="soon"),
    djqueue.Snooze(-1),
    djqueue.Snooze(10**400),
    djqueue.Snooze(None),
    djqueue.Throttled(timedelta.max),
    djqueue.PermanentFailure("\x00"),
    djqueue.Cancelled("\ud800"),
    type("Unspeakable", (Exception,), {"__module__": "\ud800\x00"})("x"),
    type("Long" * 5000, (Exception,), {"__module__": None})("x"),
]


def test_every_end_of_a_task_is_stored_and_the_worker_keeps_running(database, monkeypatch):
    monkeypatch.setattr("tests.bad_input.tasks.ENDS", HOSTILE_ENDS)
    handles = end.using(max_attempts=2).enqueue_many([djqueue.call(n) for n in range(len(HOSTILE_ENDS))])
    last = give_back.using(priority=djqueue.LOW).enqueue("last")
    with testing.worker(threads=2):
        assert last.wait(60).record.result == [["last"], {}]
        for handle, given_end in zip(handles, HOSTILE_ENDS, strict=True):
            if isinstance(given_end, BaseException):  # the other thread may have it in hand
                eventually(lambda: handle.status() == "cancelled" or handle.job().errors)
            else:
                assert handle.wait(60).record.status == "done"


@given(result=anything)
@examples(60)
def test_a_result_is_read_as_it_was_returned_or_is_replaced_by_a_marker(database, result):
    ENDS[:] = [result]
    with transaction.atomic(using=database):
        handle = end.enqueue(0)
        testing.run_pending()
        stored = handle.job().result
        assert handle.status() == "done"
        assert isinstance(stored, UnstorableResult) or repr(stored) == repr(as_stored(result))
        transaction.set_rollback(True, using=database)


@given(message=any_text, key=any_text)
@examples(60)
def test_the_text_of_an_error_is_stored(database, message, key):
    ENDS[:] = [ValueError(message, {key: message})]
    with transaction.atomic(using=database):
        handle = end.enqueue(0)
        testing.run_pending(raise_errors=False)
        record = handle.job()
        assert record.status == "dead"
        assert record.last_error == record.errors[0]["message"]
        assert record.errors[0]["exception"] == "builtins.ValueError"
        transaction.set_rollback(True, using=database)
