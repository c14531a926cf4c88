"""Calls are checked against the signature of their task, as Python would check them."""

from __future__ import annotations

import functools
import inspect
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import djqueue
from djqueue.core import registry, signatures
from djqueue.core.signatures import Signature


class Mailer:
    def send(self, to, subject="hello"): ...


def logged(func):
    @functools.wraps(func)
    def inner(*args, **kwargs):
        return func(*args, **kwargs)

    return inner


@logged
def decorated(a, b=0): ...


def with_client(func):
    """A decorator that supplies an argument, and says so."""

    @functools.wraps(func)
    def inner(*args, **kwargs):
        return func("client", *args, **kwargs)

    signature = inspect.signature(func)
    inner.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
    return inner


@with_client
def supplied(client, a): ...


class Callable:
    def __call__(self, a, *, b): ...


async def coroutine(a, b): ...


def positional_only(a, b=1, /, c=2, **more): ...


FUNCTIONS = [
    lambda: None,
    lambda a: None,
    lambda a, b=0: None,
    lambda a, *rest: None,
    lambda a, *, b: None,
    lambda a, *, b=0, **more: None,
    lambda *rest, **more: None,
    lambda *rest, b: None,
    positional_only,
    decorated,
    supplied,
    coroutine,
    Mailer.send,
    Mailer().send,
    Callable(),
    functools.partial(positional_only, 1, c=3),
    functools.partial(decorated, b=3),
]


@pytest.mark.parametrize("func", FUNCTIONS, ids=lambda func: str(inspect.signature(func)))
@given(
    count=st.integers(0, 4),
    names=st.sets(st.sampled_from(["a", "b", "c", "to", "subject", "self", "client", "delay"])),
)
def test_a_call_fits_exactly_if_python_would_accept_it(func, count, names):
    kwargs = dict.fromkeys(names)
    try:
        made = func(*[None] * count, **kwargs)
        fits = True
    except TypeError:
        fits = False
    else:
        if inspect.iscoroutine(made):
            made.close()
    assert (Signature(func).mistakes(count, kwargs) == []) is fits


def send(user_id, *, subject="Hello", body=""): ...


@pytest.mark.parametrize(
    ("count", "kwargs", "mistakes"),
    [
        (0, {}, ["missing 'user_id'"]),
        (2, {}, ["at most 1 positional arguments are accepted, got 2"]),
        (1, {"user_id": 1}, ["'user_id' is given twice"]),
        (1, {"sbject": "x"}, ["unexpected argument 'sbject' (did you mean 'subject'?)"]),
        (1, {"zzz": "x"}, ["unexpected argument 'zzz'"]),
        (0, {"usr_id": 1}, ["unexpected argument 'usr_id' (did you mean 'user_id'?)", "missing 'user_id'"]),
        (1, {"delay": 10}, ["'delay' is not an argument: use send.using(delay=10).enqueue(...)"]),
        (1, {"countdown": 10}, ["'countdown' is not an argument: use send.using(delay=10).enqueue(...)"]),
        (1, {"eta": "noon"}, ["'eta' is not an argument: use send.using(run_at=...).enqueue(...)"]),
        (
            1,
            {"timeout": timedelta(1)},
            ["'timeout' is not an argument: use send.using(timeout=datetime.timedelta(days=1)).enqueue(...)"],
        ),
    ],
)
def test_the_mistake_is_named(count, kwargs, mistakes):
    assert Signature(send).mistakes(count, kwargs) == mistakes


@pytest.mark.parametrize("option", ["delay", "run_at", "queue", "priority", "timeout", "max_attempts", "dedup_key"])
def test_every_option_has_a_hint(option):
    [mistake] = Signature(send).mistakes(1, {option: 1})
    assert f"send.using({option}=1).enqueue(...)" in mistake


def test_the_error_names_the_task_and_its_signature_without_values():
    with pytest.raises(djqueue.InvalidArguments) as error:
        signatures.check("tests.app.tasks.log_in", 1, {"remember": True, "pasword": "hunter2"})
    assert str(error.value) == (
        "Invalid arguments for tests.app.tasks.log_in(user, password, *, remember=...): "
        "unexpected argument 'pasword' (did you mean 'password'?); missing 'password'."
    )
    assert isinstance(error.value, djqueue.DjqueueError)
    assert isinstance(error.value, TypeError)


def test_an_unregistered_task_is_not_checked():
    signatures.check("nobody.knows", 7, {"a": 1})


def test_a_function_that_python_cannot_inspect_is_not_checked(monkeypatch):
    task = djqueue.Task(dict.fromkeys, "tests.fromkeys", registry.options("add"))
    monkeypatch.setitem(registry._tasks, "tests.fromkeys", task)
    monkeypatch.setattr(inspect, "signature", lambda func: (_ for _ in ()).throw(ValueError))
    signatures.check("tests.fromkeys", 7, {})


def test_a_task_that_is_registered_again_has_its_new_signature(monkeypatch):
    for func in (lambda a: None, lambda a, b: None):
        monkeypatch.setitem(registry._tasks, "tests.again", djqueue.Task(func, "tests.again", registry.options("add")))
        count = len(inspect.signature(func).parameters)
        signatures.check("tests.again", count, {})
        with pytest.raises(djqueue.InvalidArguments):
            signatures.check("tests.again", 3 - count, {})


def test_the_error_for_a_decorated_function_says_how_to_change_its_signature(monkeypatch):
    monkeypatch.setitem(registry._tasks, "tests.d", djqueue.Task(decorated, "tests.d", registry.options("add")))
    with pytest.raises(djqueue.InvalidArguments, match=r"tests.d\(a, b=...\): missing 'a'. If a decorator .* must set"):
        signatures.check("tests.d", 0, {})
