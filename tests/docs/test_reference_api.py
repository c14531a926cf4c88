"""docs/reference/api.md has every public name, with its exact signature and an explanation."""

from __future__ import annotations

import inspect
from enum import Enum
from types import ModuleType
from typing import Any

import pytest

import djqueue
from djqueue import kv, limits, maintenance, schedules, testing
from djqueue.core.retries import RetryPolicy
from djqueue.current import CurrentJob
from djqueue.exceptions import TaskControl
from tests.sql.test_query_counts import LIMITS

from . import stubs
from .tables import check_blocks, check_table

MODULES: dict[str, ModuleType] = {
    "kv": kv,
    "limits": limits,
    "schedules": schedules,
    "maintenance": maintenance,
    "testing": testing,
}
KV_NAMES = ["get", "set", "delete", "compare_and_set", "aget", "aset", "adelete", "acompare_and_set"]
LIMIT_NAMES = ["set", "clear", "get", "hold", "release", "aset", "aclear", "aget", "ahold", "arelease"]
CLASSES = [djqueue.Task, djqueue.Call, djqueue.JobHandle, djqueue.Queue, djqueue.ClaimedJob, djqueue.ModelReference]
RECORDS = [djqueue.JobRecord, djqueue.QueueStats, djqueue.WaitOutcome, djqueue.Explanation, djqueue.Estimate]
RECORDS += [djqueue.UnstorableResult, djqueue.LimitState]
POLICIES = [djqueue.NoRetry, djqueue.Fixed, djqueue.Exponential]
ENUMS: list[type[Enum]] = [djqueue.Status, djqueue.CancelOutcome]
CONSTANTS = ["HIGH", "NORMAL", "LOW"]
EXCEPTIONS = [
    found
    for name in djqueue.__all__
    if isinstance(found := getattr(djqueue, name), type) and issubclass(found, BaseException)
]


def public_names(module: ModuleType) -> list[str]:
    own = {kv: KV_NAMES, limits: LIMIT_NAMES}
    return own[module] if module in own else list(module.__all__)


def blocks() -> dict[str, str]:
    """Return what api.md shows for each function and each class with methods, by heading."""
    found = {name: stubs.function(func, name, djqueue) for name, func in functions(djqueue)}
    for prefix, module in MODULES.items():
        for name, func in functions(module):
            if getattr(djqueue, name, None) is not func:  # djqueue.schedule is schedules.schedule
                found[f"{prefix}.{name}"] = stubs.function(func, name, module)
    for kind in CLASSES:
        found[kind.__name__] = stubs.class_stub(kind, constructor=kind is djqueue.Queue)
    found["CurrentJob"] = stubs.class_stub(CurrentJob, constructor=False)
    for policy in POLICIES:
        found[policy.__name__] = stubs.class_stub(policy, constructor=policy is not djqueue.NoRetry)
    found["Limit"] = stubs.class_stub(djqueue.Limit, constructor=True)
    found["testing.eager"] = "class eager(ContextDecorator):\n    def __init__(self) -> None: ..."
    return found


def functions(module: ModuleType) -> list[tuple[str, Any]]:
    return list(stubs.public_functions(module, public_names(module)))


def test_the_api_has_every_function_and_class_with_its_signature():
    check_blocks("reference/api.md", blocks())


def test_the_api_has_every_public_name():
    variants = {stubs.twin(name, djqueue) for name, _ in functions(djqueue)} - {None}
    named = {name for name in blocks() if "." not in name} - {"CurrentJob"}
    kinds = {kind.__name__ for kind in (*RECORDS, *ENUMS, *EXCEPTIONS)}
    assert named | kinds | variants | set(CONSTANTS) | {*MODULES, "signals"} - {"testing"} == set(djqueue.__all__)
    for prefix, module in MODULES.items():
        known = {name.partition(".")[2] for name in blocks() if name.startswith(f"{prefix}.")}
        known |= {stubs.twin(name, module) for name in known} - {None}
        assert known | ({"schedule"} if module is schedules else set()) == set(public_names(module))


@pytest.mark.parametrize(("module", "names"), [(kv, KV_NAMES), (limits, LIMIT_NAMES)], ids=["kv", "limits"])
def test_a_module_without_all_has_no_other_public_function(module, names):
    own = [name for name, found in vars(module).items() if getattr(found, "__module__", "") == module.__name__]
    assert {name for name in own if not name.startswith("_")} == set(names)


@pytest.mark.parametrize("kind", [*CLASSES, CurrentJob, *RECORDS], ids=lambda kind: kind.__name__)
def test_the_api_explains_every_member(kind):
    names = [*stubs.attributes(kind), *stubs.members(kind)]
    names = [name for name in names if kind is not djqueue.Task or name != "call_options"]
    facts = (
        {name: (f"`{stubs.field_type(kind, name)}`",) for name in names}
        if kind in RECORDS
        else dict.fromkeys(names, ())
    )
    check_table("reference/api.md", kind.__name__, facts)


@pytest.mark.parametrize("kind", ENUMS, ids=lambda kind: kind.__name__)
def test_the_api_explains_every_value(kind):
    check_table("reference/api.md", kind.__name__, {one.name: (f"`{one.value}`",) for one in kind})


def test_the_api_explains_every_exception():
    def bases(kind: type) -> str:
        return ", ".join(f"`{base.__name__}`" for base in kind.__bases__)

    errors = [kind for kind in EXCEPTIONS if issubclass(kind, djqueue.DjqueueError)]
    control = [kind for kind in EXCEPTIONS if kind not in errors]
    assert all(issubclass(kind, TaskControl) for kind in control if kind is not djqueue.TaskTimeout)
    check_table("reference/api.md", "exceptions", {kind.__name__: (bases(kind),) for kind in errors})
    check_table("reference/api.md", "control exceptions", {kind.__name__: (bases(kind),) for kind in control})


def test_the_api_has_the_priorities():
    check_table("reference/api.md", "priorities", {name: (f"`{getattr(djqueue, name)}`",) for name in CONSTANTS})


def test_retry_policies_are_those_that_exist():
    assert set(POLICIES) == set(RetryPolicy.__subclasses__())


def test_the_costs_are_those_that_are_asserted():
    acts = ["enqueue", "enqueue with a dedup key", "enqueue with kv", "claim n jobs", "settle n jobs in one way"]
    facts = {
        act: [f"{'at most ' if most > 1 else ''}{most}" for most in (limit[place] for limit in LIMITS.values())]
        for place, act in enumerate(acts)
    }
    check_table("reference/api.md", "costs", facts)


@pytest.mark.parametrize("name", sorted(blocks()))
def test_every_public_function_and_class_has_a_docstring(name):
    module, _, last = name.rpartition(".")
    place: Any = MODULES[module] if module else djqueue
    found = CurrentJob if name == "CurrentJob" else getattr(place, last)
    assert found.__doc__
    for member in stubs.members(found) if isinstance(found, type) else ():
        one = inspect.getattr_static(found, member, None)
        is_field = one is None or inspect.ismemberdescriptor(one)  # of a dataclass: its class or a comment explains it
        assert is_field or inspect.getdoc(getattr(found, member)), member
