"""The pages of docs/reference state what the code has: nothing is missing, extra or different.

The API is in test_reference_api.py, and the exit codes are in test_reference_commands.py.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import pytest

import djqueue
from djqueue import conf, signals
from djqueue.core.durations import in_words
from djqueue.core.options import GivenCallOptions, GivenTaskOptions, TaskOptions, resolve
from djqueue.schedules.definition import Definition, Given
from djqueue.states import Status
from tests.app.tasks import add, eager_retry
from tests.lifecycle import transitions

from .tables import check_table

# Settings and options

TYPES = {
    conf.whole: "integer from 1",
    conf.priority: "integer",
    conf.seconds: "duration",
    conf.positive: "duration above 0",
    conf._size: "integer from 1 to 1 GiB",
    conf._fraction: "number from 0 to 10",
    conf._flag: "boolean",
    conf._alias: "database alias",
    conf._table: "dictionary",
    conf._paths: "list of dotted paths",
    conf._token: "string",
    conf._retention: "duration or None",
}


def type_of(reader: Any) -> str:
    if reader in TYPES:
        return TYPES[reader]
    [cell] = reader.__closure__  # of conf._or_none
    return f"{TYPES[cell.cell_contents]}, or None"


def default_of(field: Any) -> str:
    value = field.default_factory() if field.default is MISSING else field.default
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, float) and value >= 300:
        return f"`{value:g}` ({in_words(value)})" if value < 1e6 else f"`{value:.0f}` ({in_words(value)})"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value!r}`".replace("'", '"')


def test_settings():
    defaults = {field.name.upper(): default_of(field) for field in fields(conf.Config)}
    check_table("reference/settings.md", "settings", {k: (type_of(r), defaults[k]) for k, r in conf._READERS.items()})


def test_options_of_a_queue():
    known = {field.name for field in fields(conf.Config)}
    facts = {
        key: (type_of(reader), f"`{key.upper()}`" if key in known else "no limit")
        for key, reader in conf._QUEUE_READERS.items()
    }
    check_table("reference/settings.md", "queues", facts)


def fallback(name: str, *, call: bool) -> str:
    """Return where an option is looked up if it is not set."""
    if name in (
        "headers",
        "sensitive",
        "topics",
        "cron",
        "on_dead",
        "limit",
    ):  # HEADERS adds headers, and replaces none
        return ""
    levels = ["the task"] if call and name in {field.name for field in fields(TaskOptions)} else []
    levels += ["the queue"] if name in conf._QUEUE_READERS or name == "retry" else []
    last = {
        "queue": '`"default"`',
        "dedup_until": '`"claimed"`',
        "on_duplicate": '`"keep"`',
        "limit_key": "the `limit` of the task",
        "retry": "`BACKOFF_BASE`, `BACKOFF_MAX`",
    }
    if name.upper() in conf._READERS or name in last:
        levels.append(last.get(name, f"`{name.upper()}`"))
    return ", then ".join(levels)


def options_of(given: Any, *, call: bool) -> dict[str, tuple[str, str]]:
    return {
        name: (f"`{getattr(kind, '__forward_arg__', kind)!s}`", fallback(name, call=call) or "-")
        for name, kind in given.__annotations__.items()
    }


def test_options_of_a_task():
    facts = {"name": ("`str | None`", "`module.qualname`")} | options_of(GivenTaskOptions, call=False)
    check_table("reference/task_options.md", "task options", facts)


def test_options_of_a_call():
    check_table("reference/task_options.md", "call options", options_of(GivenCallOptions, call=True))


def test_an_unset_option_falls_back_as_the_tables_say(settings):
    values = {"max_attempts": (7, 6, 5, 4), "priority": (7, 6, 5, 4), "timeout": (7, 6, 5, 4), "lease": (7, 6, 5, 4)}
    for name, (call, task, queue, default) in values.items():
        assert fallback(name, call=True) == f"the task, then the queue, then `{name.upper()}`"
        settings.DJQUEUE = {name.upper(): default, "QUEUES": {"email": {name: queue}}}
        assert resolve(name, "other") == default
        assert resolve(name, "email") == queue
        assert resolve(name, "email", TaskOptions(**{name: task})) == task
        assert resolve(name, "email", TaskOptions(**{name: task}), call) == call


def test_options_of_a_schedule():
    defaults = {field.name: field for field in fields(Definition)}
    facts = {}
    for name, kind in Given.__annotations__.items():
        shown = getattr(kind, "__forward_arg__", kind).replace("RegisteredTask", "Task")
        field = defaults[name]
        required = field.default is MISSING and field.default_factory is MISSING
        facts[name] = (f"`{shown}`", "required" if required else default_of(field).replace('""', "None"))
    check_table("reference/api.md", "schedule options", facts)


# States

MOVES = {act.name: act.by for act in transitions.ACTS}


def test_states():
    facts = {}
    for status in Status:
        into = [act.name for act in transitions.ACTS if any(after == status for _, after in act.changes)]
        out = [act.name for act in transitions.ACTS if any(before == status for before, _ in act.changes)]
        facts[status.value] = (", ".join(into), ", ".join(out))
    check_table("reference/states.md", "states", facts)
    check_table("reference/states.md", "moves", {act: (by,) for act, by in MOVES.items()})


# Signals

COMMON = {"sender", "signal", "job", "name", "id", "attempt"}


@pytest.mark.databases("sqlite")
def test_signals_are_sent_with_these_arguments(database):
    sent: dict[str, set[str]] = {}
    known = {name: one for name, one in vars(signals).items() if name.startswith("job_")}

    def receive(signal, **kwargs):
        [name] = [name for name, one in known.items() if one is signal]
        assert set(kwargs) >= COMMON - {"signal"}
        sent.setdefault(name, set()).update(set(kwargs) - COMMON)

    for one in known.values():
        one.connect(receive)
    try:
        add.enqueue(1)
        eager_retry.using(max_attempts=2).enqueue()
        first, second = djqueue.Queue("default").claim(2)
        first.ack(1)
        second.nack("boom", delay=0)
        [again] = djqueue.Queue("default").claim(1)
        again.nack("boom")
        add.using(delay=60).enqueue(1).cancel()
        add.enqueue(1)
        [stopped] = djqueue.Queue("default").claim(1)
        djqueue.cancel(stopped.id)
        stopped.nack("stopped")
    finally:
        for one in known.values():
            one.disconnect(receive)
    facts = {name: (", ".join(f"`{extra}`" for extra in sorted(sent[name])) or "-",) for name in known}
    check_table("reference/signals.md", "signals", facts)


# Metrics


@pytest.mark.databases("sqlite")
def test_metrics(database):
    prometheus = pytest.importorskip("djqueue.contrib.prometheus", reason="install the extra prometheus")
    add.enqueue(1)
    [job] = djqueue.Queue("default").claim(1)
    job.ack()
    facts = {}
    for metric in prometheus.Collector().collect():
        labels = sorted({label for sample in metric.samples for label in sample.labels} - {"le"})
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        facts[name] = (metric.type, ", ".join(f"`{label}`" for label in labels) or "-")
    check_table("reference/metrics.md", "metrics", facts)


# Permissions


class User:
    """A user with one permission."""

    is_active = is_staff = True

    def __init__(self, permission: str) -> None:
        self.permission = permission

    def has_perm(self, permission: str, obj: object = None) -> bool:
        return permission == self.permission


def test_permissions(rf):
    from django.apps import apps
    from django.contrib.admin import site
    from django.contrib.auth import get_permission_codename

    from djqueue.admin.queues import QueueAdmin

    facts = {}
    for model in apps.get_app_config("djqueue").get_models():
        meta = model._meta
        codenames = [get_permission_codename(action, meta) for action in meta.default_permissions]
        for codename in [*codenames, *(name for name, _ in meta.permissions)]:
            request = rf.get("/")
            request.user = User(f"djqueue.{codename}")
            allowed = []
            for registered, admin in site._registry.items():
                if registered._meta.app_label != "djqueue":
                    continue
                what = [verb for verb in ("view", "add", "change") if getattr(admin, f"has_{verb}_permission")(request)]
                what += list(admin.get_actions(request))
                if isinstance(admin, QueueAdmin):
                    what += [name for name in admin.acts if admin.has_own_permission(request, name)]
                allowed += [f"{registered._meta.verbose_name}: {', '.join(what)}"] if what else []
            if allowed:
                facts[f"djqueue.{codename}"] = ("; ".join(allowed),)
    check_table("reference/permissions.md", "permissions", facts)
