"""The DJQUEUE setting with any value for any key: a sentence for each mistake, from the check and at first use."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from djqueue import conf
from djqueue.checks import SETTINGS
from tests.bad_input.strategies import HOSTILE_VALUES, any_text, anything, examples


def check(setting: Any) -> None:
    with override_settings(DJQUEUE=setting):
        found = conf.problems()
        assert all(sentence.encode() for sentence in found)
        if found:
            with pytest.raises(ImproperlyConfigured):
                conf.config()
        else:
            conf.config()
        messages = run_checks(tags=[SETTINGS])
        assert not found or messages


@pytest.mark.parametrize("key", conf._READERS)
def test_a_hostile_value_is_accepted_or_reported(key):
    for value in HOSTILE_VALUES:
        check({"DATABASE": "sqlite"} | {key: value})


@pytest.mark.parametrize("key", conf._QUEUE_READERS)
def test_a_hostile_value_of_a_queue_is_accepted_or_reported(key):
    for value in HOSTILE_VALUES:
        check({"DATABASE": "sqlite", "QUEUES": {"mail": {key: value}}})


def test_a_setting_that_is_no_dictionary_is_reported():
    for value in HOSTILE_VALUES:
        check(value)


keys = st.sampled_from([*conf._READERS, *conf._QUEUE_READERS]) | any_text | st.integers() | st.none()


@given(st.dictionaries(keys, anything, max_size=4), st.dictionaries(keys, anything | st.dictionaries(keys, anything)))
@examples(150)
def test_any_setting_is_accepted_or_reported(options, queues):
    check({"DATABASE": "sqlite", "QUEUES": queues} | options)
