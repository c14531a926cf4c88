from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured

from djqueue import conf
from djqueue.conf import FOR_EVER, Config, QueueConfig, config


def test_defaults(settings):
    del settings.DJQUEUE
    conf._forget(setting="DJQUEUE")  # deleting a setting sends no signal
    assert config() == Config()
    assert (config().max_attempts, config().lease, config().timeout, config().priority) == (3, 30, None, 1000)
    assert (config().backoff_base, config().backoff_max, config().backoff_jitter) == (1, 300, 0.1)
    assert (config().keep_done, config().keep_dead) == (86400, 7 * 86400)
    assert (config().reaper_interval, config().scheduler_interval, config().poll_interval) == (5, 1, 1)
    assert (config().max_payload_size, config().unknown_task_grace, config().shutdown_grace) == (1024**2, 600, 30)
    assert (config().notify, config().listen_database, config().eager) == (True, None, False)
    assert config().queues == {}


def test_durations_are_seconds_or_timedeltas(settings):
    settings.DJQUEUE = {
        "LEASE": timedelta(minutes=2),
        "KEEP_DONE": None,
        "KEEP_DEAD": 0,
        "QUEUES": {"email": {"lease": 1.5, "keep_done": None, "concurrency": 2}},
    }
    assert (config().lease, config().keep_done, config().keep_dead) == (120, FOR_EVER, 0)
    assert config().queues["email"] == QueueConfig(lease=1.5, keep_done=FOR_EVER, concurrency=2)
    assert config().for_queue("email", "keep_done") == FOR_EVER
    assert config().for_queue("other", "lease") == 120


def test_unset_options_of_a_queue_fall_back_to_the_default(settings):
    settings.DJQUEUE = {"BACKOFF_MAX": 50, "BACKOFF_JITTER": 0, "QUEUES": {"q": {"backoff_base": 9}}}
    assert [config().backoff_for("q").delay(n) for n in (1, 2, 3, 4)] == [9, 18, 36, 50]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"MAX_ATEMPTS": 3}, "Unknown key 'MAX_ATEMPTS' in DJQUEUE. Did you mean 'MAX_ATTEMPTS'?"),
        ({"max_attempts": 3}, "Unknown key 'max_attempts' in DJQUEUE"),
        ({"QUEUES": {"q": {"leese": 3}}}, "Unknown key 'leese' in DJQUEUE['QUEUES']['q']. Did you mean 'lease'?"),
        ({"QUEUES": {"q": 5}}, "must map a queue name to a dictionary of options, got 5"),
        ({"QUEUES": []}, "QUEUES must be a dictionary, got list"),
        ({"LEASE": "30"}, "LEASE must be seconds or a timedelta, got '30'"),
        ({"LEASE": -1}, "LEASE must be between 0 seconds and 100 years, got -1"),
        ({"MAX_ATTEMPTS": 0}, "MAX_ATTEMPTS must be a whole number from 1"),
        ({"MAX_ATTEMPTS": True}, "MAX_ATTEMPTS must be a whole number"),
        ({"POLL_INTERVAL": 0}, "POLL_INTERVAL must be greater than 0, got 0"),
        ({"NOTIFY": 1}, "NOTIFY must be True or False, got 1"),
        ({"DATABASE": "nowhere"}, "DATABASE must be an alias in DATABASES (default, "),
        ({"BACKOFF_JITTER": -1}, "BACKOFF_JITTER must be a number from 0 to 10, got -1"),
        ({"database": "default"}, "Unknown key 'database' in DJQUEUE. Did you mean 'DATABASE'?"),
        ({"QUEUES": {"q": {"MAX_ATTEMPTS": 3}}}, "Did you mean 'max_attempts'?"),
        ([], "DJQUEUE must be a dictionary, got list"),
    ],
)
def test_mistakes_are_reported_by_the_system_check_and_at_first_use(settings, given, message):
    settings.DJQUEUE = given
    [found] = [error for error in run_checks(tags=["djqueue"]) if error.id == "djqueue.E001"]
    assert message in found.msg
    with pytest.raises(ImproperlyConfigured) as raised:
        config()
    assert message in str(raised.value)


def test_every_mistake_is_listed(settings):
    settings.DJQUEUE = {"A": 1, "B": 2, "LEASE": "x"}
    assert len(conf.problems()) == 3


def test_use_tz_false_is_a_check_error(settings):
    settings.USE_TZ = False
    assert [error.id for error in run_checks(tags=["djqueue"])] == ["djqueue.E002"]


def test_eager_is_a_check_warning_of_a_deployment(settings):
    settings.DJQUEUE = {"EAGER": True}
    assert run_checks(tags=["djqueue"]) == []
    found = run_checks(tags=["djqueue"], include_deployment_checks=True)
    assert [error.id for error in found] == ["djqueue.W001"]


def test_a_good_configuration_passes_every_check(settings):
    settings.DJQUEUE = {"DATABASE": "sqlite", "QUEUES": {"q": {"max_attempts": 1}}}
    assert run_checks(tags=["djqueue"]) == []
