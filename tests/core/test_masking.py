"""Sensitive arguments are masked wherever they may have been written."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from django.db import connections

import djqueue
from djqueue.core import masking, registry
from djqueue.core.masking import MASK
from djqueue.fields import Unreadable
from tests.app.tasks import add, log_in, pay, refuse, sign
from tests.tools import claim_one

LOG_IN = "tests.app.tasks.log_in"
PAY = "tests.app.tasks.pay"


@pytest.mark.parametrize(
    ("task", "args", "kwargs", "expected"),
    [
        (LOG_IN, ["ada", "hunter2"], {}, (["ada", MASK], {})),
        (LOG_IN, ["ada"], {"password": "hunter2", "remember": True}, (["ada"], {"password": MASK, "remember": True})),
        (LOG_IN, [], {"password": None}, ([], {"password": MASK})),
        (LOG_IN, ["ada", {"nested": "hunter2"}, "spare"], {}, (["ada", MASK, "spare"], {})),
        (PAY, [1, 2], {"card": "4111", "cvc": "123"}, ([1, 2], {"card": MASK, "cvc": MASK})),
        ("tests.app.tasks.add", [1], {"b": 2}, ([1], {"b": 2})),
        ("nobody.knows", [1], {"password": "x"}, ([MASK], {"password": MASK})),
        ("nobody.knows", [], {}, ([], {})),
        ("nobody.knows", Unreadable("[hunter2"), None, (MASK, MASK)),
        (LOG_IN, Unreadable("[hunter2"), Unreadable("{"), (MASK, MASK)),
        (LOG_IN, 3, None, (MASK, MASK)),
    ],
)
def test_arguments_are_masked_by_position_and_by_name(task, args, kwargs, expected):
    assert masking.masked(task, args, kwargs) == expected


def test_an_unchanged_mask_keeps_the_value():
    old = (["ada", "hunter2"], {})
    assert masking.unmasked(LOG_IN, ["grace", MASK], {}, *old) == (["grace", "hunter2"], {})
    assert masking.unmasked(LOG_IN, ["grace"], {"password": MASK}, *old) == (["grace"], {"password": "hunter2"})
    assert masking.unmasked(LOG_IN, ["grace", "new"], {}, *old) == (["grace", "new"], {})
    assert masking.unmasked(LOG_IN, [MASK, MASK], {}, *old) == ([MASK, "hunter2"], {})
    with pytest.raises(KeyError, match="password"):
        masking.unmasked(LOG_IN, ["grace", MASK], {}, ["ada"], {})


def test_every_argument_of_an_unknown_task_is_masked():
    old = (["ada", "hunter2"], {"pin": 4711987})
    assert set(masking.secrets("nobody.knows", *old)) == {"hunter2", "4711987"}
    assert masking.visible("nobody.knows", *old) == {}
    assert masking.unmasked("nobody.knows", [MASK, "new"], {"pin": MASK}, *old) == (["ada", "new"], {"pin": 4711987})
    with pytest.raises(KeyError, match=r"args\[2\]"):
        masking.unmasked("nobody.knows", [1, 2, MASK], {}, *old)


@pytest.mark.parametrize(
    "secret",
    [
        "hunter2",
        'it\'s "quoted"',
        "back\\slash",
        "zwei\nZeilen mit Text",
        "ключ-пароль",
        {"pin": 4711987, "words": ["correct horse", "battery staple"]},
        12345678,
    ],
)
@pytest.mark.parametrize("spell", [str, repr])
def test_secrets_are_masked_in_every_spelling(secret, spell):
    secrets = masking.secrets(LOG_IN, ["ada", secret], {})
    text = masking.hide(f"before {spell(secret)} after", secrets)
    for part in ("hunter2", "quoted", "slash", "Zeilen", "ключ", "4711987", "horse", "battery", "12345678"):
        assert part not in text
    assert text.startswith("before ")
    assert text.endswith(" after")


def test_short_values_are_not_masked_in_texts():
    assert masking.secrets(LOG_IN, ["ada", "a"], {}) == []
    assert masking.secrets(LOG_IN, ["ada", 12], {}) == []
    assert masking.secrets("tests.app.tasks.add", ["hunter2"], {}) == []


def test_nested_values_are_masked():
    secrets = masking.secrets(LOG_IN, ["ada", "hunter2"], {})
    value = {"a": ["x hunter2 y", 1, None], "hunter2": True}
    assert masking.hide_in(value, secrets) == {"a": [f"x {MASK} y", 1, None], MASK: True}


def fail(job: djqueue.ClaimedJob) -> None:
    """Run a claimed job as a worker does, and settle its failure."""
    try:
        registry.find(job.task).func(*job.args, **job.kwargs)
    except Exception as error:
        job.nack(error)


def test_errors_and_tracebacks_do_not_contain_secrets(database):
    handles = [
        log_in.using(max_attempts=1).enqueue("ada", "hunter2"),
        log_in.using(max_attempts=1).enqueue("ada", password="hunter2"),
        pay.enqueue(1, card={"number": "4111-1111"}, cvc="secret-cvc"),
    ]
    for job in djqueue.Queue("default").claim(3):
        fail(job)
    for handle in handles:
        record = handle.job()
        assert record.status == "dead"
        shown = f"{record!r} {record.last_error} {record.errors}"
        for secret in ("hunter2", "4111-1111", "secret-cvc"):
            assert secret not in shown
        assert MASK in record.last_error
        assert MASK in record.errors[0]["traceback"]
    assert "ada may not come in" in handles[1].job().last_error


@pytest.mark.databases("postgresql", "sqlite")
def test_a_worker_does_not_log_secrets(database):
    handle = log_in.using(max_attempts=1).enqueue("ada", "hunter2")
    done = subprocess.run(
        [sys.executable, "-m", "tests.worker.main", database, connections[database].settings_dict["NAME"], "--burst"],
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert handle.status() == "dead"
    assert "ada may not come in" in done.stdout
    assert "hunter2" not in done.stdout


SECRETS = {
    "price": Decimal("9999.90"),
    "at": datetime(2026, 1, 31, 9, 30, tzinfo=UTC),
    "raw": b"raw-secret",
    "wait": timedelta(days=3, seconds=7),
}
PARTS = ("9999.9", "2026-01-31", "2026, 1, 31", "raw-secret", "3 days", "default-key", "1234.5", "hunter2")


def test_values_of_other_types_and_defaults_are_masked_in_errors(database):
    handles = [
        sign.enqueue(1, "hunter2", **SECRETS),
        sign.enqueue(2, at=UUID("018f3b1e-0000-7000-8000-00000000beef"), raw=date(2026, 1, 31)),
        sign.enqueue(3),
    ]
    for job in djqueue.Queue("default").claim(3):
        fail(job)
    for handle in handles:
        record = handle.job()
        shown = f"{record.last_error} {record.errors}"
        assert not [part for part in (*PARTS, "beef") if part in shown], shown
        assert MASK in record.last_error


@pytest.mark.parametrize(
    "secret",
    [*SECRETS.values(), UUID(int=2**100), date(2026, 1, 31), time(9, 30, 59), Decimal("1E+20"), Decimal("9.90")],
    ids=lambda secret: type(secret).__name__,
)
def test_a_secret_of_another_type_is_masked_in_its_usual_spellings(secret):
    secrets = masking.secrets(LOG_IN, ["ada", {"a": [secret]}], {})
    spellings = [repr(secret)]
    if len(str(secret)) >= 6:
        spellings.append(str(secret))
    if hasattr(secret, "isoformat"):
        spellings.append(secret.isoformat())
    for text in spellings:
        assert masking.hide(f"before {text} after", secrets) == f"before {MASK} after"
    assert masking.hide_in({"result": [secret, 1]}, secrets) == {"result": [MASK, 1]}


def test_a_default_is_masked_only_if_the_call_uses_it():
    assert "default-key" in masking.secrets("tests.app.tasks.sign", [1], {})
    assert "default-key" not in masking.secrets("tests.app.tasks.sign", [1, "given-key"], {})
    assert "default-key" not in masking.secrets("tests.app.tasks.sign", [1], {"key": "given-key"})


def test_a_row_with_an_invalid_tag_fails_without_showing_its_secrets(database):
    from djqueue.models import Job
    from tests.tools import rows

    handle = log_in.using(max_attempts=1).enqueue("ada", "hunter2")
    rows(Job).update(args=Unreadable('["ada", {"$decimal": "hunter2"}]'))
    claim_one().nack("cannot read hunter2")
    assert handle.job().last_error == f"cannot read {MASK}"


def test_a_failing_on_dead_does_not_log_secrets(database, caplog):
    refuse.enqueue("hunter2")
    claim_one().dead_letter("no")
    assert "on_dead failed" in caplog.text
    assert "cannot tell" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_secret_is_masked_before_the_text_is_cut(database):
    """A cut through the middle of it would leave its halves."""
    handle = log_in.using(max_attempts=1).enqueue("ada", "hunter2" * 50)
    job = claim_one()
    for padding in range(700, 1000, 50):
        text = "x" * padding + "hunter2" * 50 + "y" * 3000
        for error in (text, ValueError(text)):
            failure = djqueue.lifecycle.failure.describe(error, masking.secrets(job.task, job.args, job.kwargs))
            assert "hunter" not in failure.message
    job.dead_letter("x" * 900 + "hunter2" * 50 + "y" * 3000)
    assert "hunter" not in handle.job().last_error


def test_a_row_with_invalid_json_fails_without_showing_it(database):
    from djqueue.models import Job
    from tests.tools import rows

    handle = log_in.using(max_attempts=1).enqueue("ada", "hunter2")
    rows(Job).update(args=Unreadable('["ada", "hunter2"'))
    job = claim_one()
    job.nack(f"cannot read {job.row.args}")
    assert handle.status() == "dead"
    assert "hunter2" not in f"{handle.job()!r}{handle.job().errors}"


def test_no_repr_shows_arguments(database):
    handle = add.enqueue("hunter2", b="hunter2")
    shown = [handle, handle.job(), djqueue.call("hunter2"), add.call("hunter2")]
    job = claim_one()
    shown += [job, job.row]
    job.dead_letter("no")
    from djqueue.core.records import NewJob, Requeue

    shown += [djqueue.requeue(handle.id), Requeue(id=handle.id, args='["hunter2"]')]
    shown.append(NewJob(handle.id, '["hunter2"]', "{}", task="t", queue="q", priority=1, max_attempts=1))
    for thing in shown:
        assert "hunter2" not in repr(thing)
