"""URLs and form data that no page produces never cause a server error."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from djqueue.admin import CLASSES
from tests.admin.tools import SCHEDULE
from tests.factories import (
    DeadJobFactory,
    DoneJobFactory,
    JobFactory,
    KVFactory,
    LimitKeyFactory,
    QueueStateFactory,
    ScheduleFactory,
    WorkerFactory,
)

pytestmark = pytest.mark.databases("postgresql", "sqlite")

MODELS = sorted(model._meta.model_name for model in CLASSES)
ACTIONS = {model._meta.model_name: cls.actions for model, cls in CLASSES.items()}
VALUES = ["\x00", "x", "9" * 40, "\ud800", "_00"]


def encode(text: str) -> str:
    return quote(text, errors="surrogatepass")


PARTS = [encode(value) for value in VALUES]
FACTORIES = [
    JobFactory,
    DoneJobFactory,
    DeadJobFactory,
    KVFactory,
    ScheduleFactory,
    WorkerFactory,
    QueueStateFactory,
    LimitKeyFactory,
]


@pytest.fixture(autouse=True)
def one_row_each(database):
    for factory in FACTORIES:
        factory()


@pytest.mark.parametrize("model", MODELS)
def test_any_object_id_causes_no_server_error(boss, model):
    for part in PARTS:
        for view in ("", "change/", "history/", "delete/"):
            get(boss, boss.url(model, f"{part}/{view}"))
        post(boss, boss.url(model, f"{part}/change/"), {})


@pytest.mark.parametrize("model", MODELS)
def test_any_query_string_causes_no_server_error(boss, model):
    for name in (
        "p",
        "q",
        "o",
        "all",
        "e",
        "status",
        "queue",
        "task",
        "error",
        "errors",
        "late",
        "state",
        "limit_key__exact",
        "_changelist_filters",
    ):
        for part in PARTS:
            get(boss, f"{boss.url(model)}?{name}={part}")


@pytest.mark.parametrize("model", MODELS)
def test_any_selection_causes_no_server_error(boss, model):
    for value in VALUES:
        for action in (*(ACTIONS[model] or ()), value):
            data = {"action": action, "select_across": "0", "_selected_action": value, "from_page": value}
            post(boss, boss.url(model), data)
            post(boss, boss.url(model), data | {"index": value, "select_across": value})


def test_any_queue_name_causes_no_server_error(boss):
    for value in VALUES:
        for act in ("pause", "resume", value):
            post(boss, boss.url("queuestate"), {"act": act, "queue": value})
            post(boss, boss.url("queuestate"), {"act": act, "queue": value, "confirmed": "yes"})


@pytest.mark.parametrize("value", VALUES, ids=ascii)
def test_any_form_value_causes_no_server_error(boss, value):
    for name in SCHEDULE:
        post(boss, boss.url("schedule", "add/"), {"name": "new", **SCHEDULE, name: value})
    for act, name in (("hold", "hold"), ("set", "concurrency"), ("set", "rate"), ("set", "burst"), (value, "hold")):
        post(boss, boss.url("limitkey", "new/change/"), {"act": act, "confirmed": "yes", name: value})
    for name in ("key", "content", "seen"):
        post(boss, boss.url("kv", "add/"), {"key": "new", "content": "1", name: value})


def get(person, url: str) -> None:
    assert person.client.get(url).status_code < 500, url


def post(person, url: str, data: dict[str, str]) -> None:
    """Submit a form, encoded as a browser would, with values that no browser sends."""
    body = "&".join(f"{name}={encode(text)}" for name, text in data.items())
    response = person.client.post(url, body, content_type="application/x-www-form-urlencoded")
    assert response.status_code < 500, (url, body)
