from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from djqueue.core import payload
from djqueue.exceptions import InvalidPayload, PayloadTooLarge

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20)


@given(values)
def test_accepted_values_are_read_as_they_were_written(value):
    back = payload.decode(payload.encode(value, "value"))
    assert back == value
    assert repr(back) == repr(value)


@given(values)
def test_equal_values_have_one_canonical_text(value):
    again = json.loads(json.dumps(value))
    if isinstance(again, dict):
        again = dict(reversed(again.items()))
    assert payload.canonical(value, "value") == payload.canonical(again, "value")


@given(st.binary().map(lambda raw: raw.decode("utf-16-le", "surrogatepass") if len(raw) % 2 == 0 else "\x00"))
def test_any_text_is_made_safe(text):
    safe = payload.safe_text(text, 10_000)
    assert "\x00" not in safe
    assert safe.encode().decode() == safe


def test_tuples_become_lists():
    assert payload.decode(payload.encode((1, (2,)), "value")) == [1, [2]]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, {"a": [{3}]}], r"value\[1\]\.a\[0\] is of type set"),
        ({"a b": object()}, r"value\['a b'\] is of type object"),
        ({None: 1}, r"value\[None\] is not a string"),
        ([[["\ud800"]]], r"value\[0\]\[0\]\[0\] contains a lone surrogate at position 0"),
        (-(10**640), "value is an integer with more than 640 digits"),
        (complex(1, 2), "value is of type complex"),
    ],
)
def test_the_error_contains_the_path_of_the_bad_part(value, message):
    with pytest.raises(InvalidPayload, match=message):
        payload.encode(value, "value")


def test_a_value_that_contains_itself_is_refused():
    endless: list = []
    endless.append(endless)
    with pytest.raises(InvalidPayload, match="nested deeper than 100 levels"):
        payload.encode(endless, "value")


def test_the_error_names_the_largest_part():
    with pytest.raises(PayloadTooLarge, match=r"b too large: 60 of 100 bytes encoded \(MAX_PAYLOAD_SIZE is 99\)"):
        payload.check_size({"a": "x" * 40, "b": "ü" * 30}, 99)
    payload.check_size({"a": "x" * 40, "b": "ü" * 30}, 100)


def test_a_long_text_keeps_its_head_and_tail():
    cut = payload.safe_text("a" * 50 + "m" * 1000 + "z" * 50, 100)
    assert cut == "a" * 50 + "\n… 1000 characters cut …\n" + "z" * 50
