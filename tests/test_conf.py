from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured

from djqueue import conf
from djqueue.conf import FOR_EVER, Config, QueueConfig, config


def test_defaults(settings):
    del settings.DJQUEUE
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
    assert config().queue("email") == QueueConfig(lease=1.5, keep_done=FOR_EVER, concurrency=2)
    assert config().keep_done_for("email") == FOR_EVER
    assert config().lease_for("other") == 120


def test_what_a_queue_does_not_say_falls_through(settings):
    settings.DJQUEUE = {"BACKOFF_MAX": 50, "BACKOFF_JITTER": 0, "QUEUES": {"q": {"backoff_base": 9}}}
    assert [config().backoff_for("q").delay(n) for n in (1, 2, 3, 4)] == [9, 18, 36, 50]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"MAX_ATEMPTS": 3}, "unknown key 'MAX_ATEMPTS'. Did you mean 'MAX_ATTEMPTS'?"),
        ({"max_attempts": 3}, "unknown key 'max_attempts'"),
        ({"QUEUES": {"q": {"leese": 3}}}, "DJQUEUE['QUEUES']['q'] has the unknown key 'leese'. Did you mean 'lease'?"),
        ({"QUEUES": {"q": 5}}, "must be a name with a dictionary"),
        ({"QUEUES": []}, "QUEUES must be a dictionary"),
        ({"LEASE": "30"}, "LEASE must be seconds or a timedelta, not str"),
        ({"LEASE": -1}, "LEASE must be between 0"),
        ({"MAX_ATTEMPTS": 0}, "MAX_ATTEMPTS must be a whole number from 1"),
        ({"MAX_ATTEMPTS": True}, "MAX_ATTEMPTS must be a whole number"),
        ({"POLL_INTERVAL": 0}, "POLL_INTERVAL must be more than 0"),
        ({"NOTIFY": 1}, "NOTIFY must be True or False"),
        ({"DATABASE": "nowhere"}, "DATABASE names 'nowhere', which is not in DATABASES"),
        ({"BACKOFF_JITTER": -1}, "BACKOFF_JITTER must be a fraction"),
        ({"database": "default"}, "unknown key 'database'. Did you mean 'DATABASE'?"),
        ({"QUEUES": {"q": {"MAX_ATTEMPTS": 3}}}, "Did you mean 'max_attempts'?"),
        ([], "DJQUEUE must be a dictionary"),
    ],
)
def test_mistakes_are_found_by_the_system_check_and_at_use(settings, given, message):
    settings.DJQUEUE = given
    [found] = [error for error in run_checks(tags=["djqueue"]) if error.id == "djqueue.E001"]
    assert message in found.msg
    with pytest.raises(ImproperlyConfigured) as raised:
        config()
    assert message in str(raised.value)


def test_every_mistake_is_listed(settings):
    settings.DJQUEUE = {"A": 1, "B": 2, "LEASE": "x"}
    assert len(conf.problems()) == 3


def test_a_naive_project_is_told(settings):
    settings.USE_TZ = False
    assert [error.id for error in run_checks(tags=["djqueue"])] == ["djqueue.E002"]


def test_eager_is_not_silently_ignored(settings):
    settings.DJQUEUE = {"EAGER": True}
    assert [error.id for error in run_checks(tags=["djqueue"])] == ["djqueue.W001"]


def test_a_good_configuration_passes_every_check(settings):
    settings.DJQUEUE = {"DATABASE": "sqlite", "QUEUES": {"q": {"max_attempts": 1}}}
    assert run_checks(tags=["djqueue"]) == []
