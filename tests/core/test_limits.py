from __future__ import annotations

import pickle
from datetime import date

import pytest

import djqueue
from djqueue.core.limits import Limit, Numbers, portable_signature, read_rate, signature_of, usual_burst
from djqueue.core.options import CallOptions


@pytest.mark.parametrize(
    ("rate", "per_second"), [("1/s", 1), ("100/m", 100 / 60), ("90/h", 0.025), ("864/d", 0.01), ("0.5/s", 0.5)]
)
def test_rates_are_read(rate, per_second):
    assert read_rate(rate) == pytest.approx(per_second)


@pytest.mark.parametrize(
    "rate", ["", "100", "100/w", "0/s", "-1/s", "1 /s", "fast", 5, None, True, "1e3/s", "9999999/s"]
)
def test_bad_rates_are_refused(rate):
    with pytest.raises(djqueue.InvalidOption, match='such as "100/m"'):
        read_rate(rate)


@pytest.mark.parametrize(("rate", "burst"), [(0.01, 1), (1, 1), (1.9, 1), (10, 10), (200, 200)])
def test_the_usual_burst_is_what_a_second_allows(rate, burst):
    assert usual_burst(rate) == burst


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": ""}, "format string"),
        ({"key": 5}, "format string"),
        ({"key": "a:{", "concurrency": 1}, "not a format string"),
        ({"key": "a:{}", "concurrency": 1}, "must name parameters"),
        ({"key": "a:{0}", "concurrency": 1}, "must name parameters"),
        ({"key": "a"}, "concurrency, rate or both"),
        ({"key": "a", "concurrency": 0}, "concurrency must be a whole number"),
        ({"key": "a", "concurrency": True}, "concurrency must be a whole number"),
        ({"key": "a", "concurrency": 1.5}, "concurrency must be a whole number"),
        ({"key": "a", "rate": "often"}, "rate must be"),
        ({"key": "a", "rate": "0.0000001/d"}, "at most ten years"),
        ({"key": "a", "rate": "1/d", "burst": 1_000_000}, "at most ten years"),
        ({"key": "a", "rate": "1/s", "burst": 0}, "burst must be a whole number"),
        ({"key": "a", "concurrency": 1, "burst": 5}, "without rate"),
    ],
)
def test_bad_limits_are_refused_when_they_are_declared(options, message):
    with pytest.raises(djqueue.InvalidOption, match=message):
        Limit(**options)


def test_a_key_that_names_no_parameter_is_refused_when_the_task_is_declared():
    with pytest.raises(
        djqueue.InvalidOption, match=r"names 'tenant', which is not a parameter of sync\(\) \(tenant_id\)"
    ):

        @djqueue.task(limit=Limit("tenant:{tenant}", concurrency=1))
        def sync(tenant_id): ...


def test_something_else_than_a_limit_is_refused():
    with pytest.raises(djqueue.InvalidOption, match="limit must be a limit such as"):
        djqueue.task(limit="5/s")(lambda: None)


def key(template: str, function, *args, **kwargs) -> str:
    limit = Limit(template, concurrency=1)
    limit.check(function)
    made = limit.key_for(signature_of(function), args, kwargs)
    # A process that does not import the task makes the same key.
    assert limit.key_for(pickle.loads(pickle.dumps(portable_signature(function))), args, kwargs) == made
    return made


def test_keys_are_made_of_positional_named_and_default_arguments():
    def sync(tenant_id, page=1, *rest, region="eu", **more): ...

    assert key("t:{tenant_id}", sync, 7) == "t:7"
    assert key("t:{tenant_id}", sync, tenant_id=7) == "t:7"
    assert key("{region}/{tenant_id:03d}/{page}", sync, 7) == "eu/007/1"
    assert key("{rest[0]}-{more[x]}", sync, 7, 2, "a", x="b") == "a-b"
    assert key("all of them", sync, 7) == "all of them"
    assert key("{day}", lambda day=date(2026, 1, 2): None) == "2026-01-02"


@pytest.mark.parametrize("value", ["", "x" * 300, "a\nb", "\x00", "\ud800"])
def test_a_key_that_cannot_be_stored_is_refused_by_the_call(value):
    with pytest.raises(djqueue.InvalidOption, match="limit key"):
        key("{a}", lambda a: None, value)


def test_a_key_that_cannot_be_made_is_refused_by_the_call():
    with pytest.raises(djqueue.InvalidOption, match="cannot be made of these arguments"):
        key("{a.pk}", lambda a: None, 5)


@pytest.mark.parametrize("limit_key", [5, "x" * 300, "a\nb"])
def test_bad_keys_of_a_call_are_refused(limit_key):
    with pytest.raises(djqueue.InvalidOption, match="limit_key"):
        CallOptions(limit_key=limit_key)


@pytest.mark.parametrize(
    "call",
    [
        lambda: djqueue.limits.set("k"),
        lambda: djqueue.limits.set("k", concurrency=-1),
        lambda: djqueue.limits.set("k", rate="soon"),
        lambda: djqueue.limits.set("", concurrency=1),
        lambda: djqueue.limits.hold("k", -1),
        lambda: djqueue.limits.hold("k", "long"),
        lambda: djqueue.limits.get("a\nb"),
        lambda: djqueue.limits.release(""),
    ],
)
def test_bad_calls_are_refused_before_anything_is_written(call):
    with pytest.raises(djqueue.InvalidOption):
        call()


def test_an_override_replaces_the_numbers_that_it_sets():
    usual = Numbers(5, 2.0, 10)
    assert usual.replaced_by(Numbers()) == usual
    assert usual.replaced_by(Numbers(concurrency=1)) == Numbers(1, 2.0, 10)
    assert usual.replaced_by(Numbers(rate=3.0)) == Numbers(5, 3.0, 3)
    assert usual.replaced_by(Numbers(rate=3.0, burst=7)) == Numbers(5, 3.0, 7)
    assert Numbers().replaced_by(Numbers(rate=0.5)) == Numbers(None, 0.5, 1)


def test_a_limit_can_be_sent_to_another_process():
    limit = Limit("t:{a}", 5, "10/s")
    assert pickle.loads(pickle.dumps(limit)) == limit
    assert pickle.loads(pickle.dumps(limit)).numbers == limit.numbers
