"""Values that JSON lacks are read as they were written, and nothing else is."""

from __future__ import annotations

import collections
import enum
import io
import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import AnonymousUser, Group
from django.core.files.base import ContentFile
from django.db import models
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st

from djqueue import ModelReference, UnstorableResult
from djqueue.core import payload
from djqueue.exceptions import InvalidPayload
from tests.app.models import Place, ProxyPlace

from .test_payload import texts, values

BERLIN = ZoneInfo("Europe/Berlin")
offsets = st.integers(-86_399, 86_399).map(lambda n: timezone(timedelta(seconds=n)))
zones = st.none() | st.just(UTC) | offsets | st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"]).map(ZoneInfo)
typed = (
    st.datetimes(timezones=zones, allow_imaginary=True)
    | st.dates()
    | st.times(timezones=zones)
    | st.timedeltas()
    | st.uuids()
    | st.decimals(allow_nan=False)
    | st.binary()
)
tag_like = st.dictionaries(st.sampled_from(["$", "$decimal", "$dict", "$model", "$unknown", "a"]), texts, max_size=2)
everything = st.recursive(values | typed | tag_like, lambda inner: st.lists(inner) | st.dictionaries(texts, inner))


def back(value: object) -> object:
    return payload.decode_typed(payload.encode_typed(value, "value"))


@given(everything)
def test_values_are_read_as_they_were_written(value):
    assert back(value) == value
    assert repr(back(value)) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
        datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),
        datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN, fold=1),  # a time that does not exist
        datetime(2026, 10, 25, 2, 30, fold=1),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=45))),
        time(2, 30, tzinfo=BERLIN, fold=1),
        timedelta.min,
        timedelta.max,
        Decimal("1E+6144"),
        Decimal("-0.00"),
        Decimal("NaN"),
        Decimal("sNaN123"),
        Decimal("-Infinity"),
        Decimal("9." + "9" * 5000),
        b"\x00\xff",
        b"",
    ],
    ids=lambda value: repr(value)[:40],
)
def test_nothing_of_a_value_is_lost(value):
    assert type(back(value)) is type(value)
    assert repr(back(value)) == repr(value)
    assert getattr(back(value), "fold", None) == getattr(value, "fold", None)


@given(tag_like)
def test_a_dictionary_that_looks_like_a_tag_survives(value):
    assert back([value, {"x": value}]) == [value, {"x": value}]
    assert back({"$dict": value}) == {"$dict": value}


def test_the_stored_form_is_json_with_one_key():
    assert payload.encode_typed([Decimal("9.90"), {"$set": 1}, 2], "value") == (
        '[{"$decimal":"9.90"},{"$dict":{"$set":1}},2]'
    )
    assert json.loads(payload.encode_typed(datetime(2026, 1, 31, 9, tzinfo=BERLIN), "value")) == {
        "$datetime": "2026-01-31T09:00:00[Europe/Berlin]"
    }


def test_plain_json_is_stored_as_it_always_was():
    value = {"a": [1, 1.5, None, True, "$5", {"b": {"$x": 1, "y": 2}}]}
    assert payload.encode_typed(value, "value") == payload.encode(value, "value")


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Size(models.TextChoices):
    SMALL = "s", "Small"


class OwnDatetime(datetime):
    pass


class Nanoseconds(datetime):
    """A type with more than its base class can hold."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and super().__eq__(other)

    __hash__ = datetime.__hash__


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Size.SMALL, "s"),
        (SafeString("<b>"), "<b>"),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (collections.defaultdict(list, {"a": [1]}), {"a": [1]}),
        (Point(1, 2), [1, 2]),
        (OwnDatetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_subclass_is_read_as_its_base_class(value, expected):
    for wrap in ([value], {"a": value, "other": UUID(int=1)}):
        found = back(wrap)
        found = found[0] if isinstance(found, list) else found["a"]
        assert found == expected
        assert type(found) is type(expected)


def saved(model: type[models.Model], pk: object, database: str = "default") -> models.Model:
    instance = model(pk=pk)
    instance._state.adding, instance._state.db = False, database
    return instance


def test_a_model_instance_is_read_as_a_reference():
    user = SimpleLazyObject(lambda: saved(Place, 7))
    assert back([saved(Place, 42, "other"), saved(ProxyPlace, 1), user]) == [
        ModelReference("app.Place", "other", 42),
        ModelReference("app.ProxyPlace", "default", 1),
        ModelReference("app.Place", "default", 7),
    ]
    key = uuid4()
    assert back(saved(Place, key)) == back(back(saved(Place, key))) == ModelReference("app.Place", "default", key)
    assert str(ModelReference("app.Place", "default", 42)) == "app.Place 42"


def test_a_marker_is_read_as_it_was_written():
    assert back(UnstorableResult("set", "{1}", "no")) == UnstorableResult("set", "{1}", "no")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"$decimal":"x"}', r"Invalid tag '\$decimal'"),
        ('{"$decimal":1.5}', r"Invalid tag '\$decimal'"),
        ('{"$decimal":"1e99999999999999999999"}', r"Invalid tag '\$decimal'"),
        ('{"$datetime":"yesterday"}', r"Invalid tag '\$datetime'"),
        ('{"$datetime":"2026-01-01T00:00:00[../../etc/passwd]"}', r"Invalid tag '\$datetime'"),
        ('{"$datetime":"2026-01-01T00:00:00[Nowhere/Town]"}', r"Invalid tag '\$datetime'"),
        ('{"$datetime":"2026-01-01T00:00:00+01:00[Europe/Berlin]"}', r"Invalid tag '\$datetime'"),
        ('{"$time":"25:00"}', r"Invalid tag '\$time'"),
        ('{"$timedelta":"P9999999999D"}', r"Invalid tag '\$timedelta'"),
        ('{"$uuid":"42"}', r"Invalid tag '\$uuid'"),
        ('{"$bytes":"?"}', r"Invalid tag '\$bytes'"),
        ('{"$model":["a.B","default"]}', r"Invalid tag '\$model'"),
        ('{"$model":[1,"default",1]}', r"Invalid tag '\$model'"),
        ('{"$unstorable":"x"}', r"Invalid tag '\$unstorable'"),
        ('{"$dict":[]}', r"Invalid tag '\$dict'"),
        ('[{"a":{"$import":"os"}}]', r"Unknown tag '\$import' .* Valid tags: \$datetime, .*\$dict"),
    ],
)
def test_an_invalid_tag_is_an_error_that_names_it(text, message):
    with pytest.raises(InvalidPayload, match=message):
        payload.decode_typed(text)


def test_an_unknown_model_is_not_imported():
    with pytest.raises(InvalidPayload, match="Unknown model 'os.system'"):
        payload.load('{"$model":["os.system","default",1]}')


def generate():
    yield 1


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ({1}, "Pass a list."),
        (generate(), "Pass a list."),
        ({}.keys(), "Pass a list."),
        (Group.objects.all(), "Pass a list of primary keys"),
        (Group.objects, "Pass a list of primary keys"),
        (Group, "Pass its label"),
        (int, "Pass its name."),
        (Group(name="new"), "It is not saved: save it first"),
        (Group(pk=1), "It is not saved: save it first"),
        (HttpRequest(), "Pass the values that the task needs"),
        (io.BytesIO(), "Store the file, and pass its name."),
        (ContentFile(b""), "Store the file, and pass its name."),
        (bytearray(b"x"), r"Pass bytes\(value\)."),
        (enum.Enum("Kind", "A B").A, "Pass its value."),
        (gettext_lazy("Hello"), r"Pass str\(value\)."),
        (Path("/tmp"), r"Pass str\(value\)."),
        (ValueError("x"), r"Pass str\(value\)."),
        (Nanoseconds(2026, 1, 1), r"Pass str\(value\)."),
        (collections.ChainMap(), r"Pass dict\(value\)."),
        (float("nan"), "Pass None, or a string."),
        (AnonymousUser(), "Pass JSON values, datetime"),
        (1 + 2j, "Pass JSON values, datetime"),
        ({1: 2}, r"Pass str\(key\)."),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_the_error_says_what_to_pass_instead(value, remedy):
    with pytest.raises(InvalidPayload, match=remedy):
        payload.encode_typed(value, "value")


@pytest.mark.parametrize("value", [Decimal(1), datetime(2026, 1, 1), uuid4(), b"x", date(2026, 1, 1)])
def test_headers_and_kv_values_are_plain_json(value):
    with pytest.raises(InvalidPayload, match=r"which cannot be stored. Pass str\(value\)."):
        payload.encode({"h": value}, "headers")
    with pytest.raises(InvalidPayload, match=r"which cannot be stored. Pass str\(value\)."):
        payload.canonical(value, "kv")
    with pytest.raises(InvalidPayload, match="Pass its primary key."):
        payload.encode(saved(Place, 1), "headers")
    looks_like_tag = {"$decimal": "9.90"}
    assert payload.decode(payload.encode(looks_like_tag, "headers")) == looks_like_tag
