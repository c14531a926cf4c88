"""The doctor as a whole: what it looks at, and that nothing stops it."""

from __future__ import annotations

import io
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connections

from djqueue import checks
from djqueue.operations import doctor
from djqueue.operations.codes import Code
from djqueue.operations.doctor import settings as doctor_settings
from djqueue.operations.findings import Finding, Severity
from tests.conftest import PLAIN
from tests.factories import JobFactory, WorkerFactory, ago
from tests.tools import statements_sent

from .tools import examined

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "doctor.md"
WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE|LOCK|CREATE|ALTER|DROP)\b|FOR UPDATE|FOR SHARE", re.IGNORECASE)


def test_every_code_has_its_section_and_every_section_its_code():
    text = DOCS.read_text()
    assert re.findall(r"^### `(\w+)`", text, re.MULTILINE) == [code.value for code in Code]
    for section in text.split("### `")[1:]:
        assert "**Remedy:**" in section, section


def test_the_tags_are_those_of_the_system_checks():
    assert doctor_settings.TAGS == ("djqueue", checks.DATABASE)


@pytest.mark.databases(*PLAIN)
def test_a_new_database_has_no_findings(database):
    assert doctor.examine() == []


@pytest.mark.databases(*PLAIN)
def test_an_examination_only_reads_and_the_number_of_statements_does_not_grow_with_the_rows(database):
    JobFactory(claimed=True, claimed_at=ago(100))
    WorkerFactory(queues=[])
    with statements_sent() as few:
        doctor.examine()
    for number in range(20):
        JobFactory(queue=f"q{number}", claimed=True, claimed_at=ago(100 + number))
        WorkerFactory(queues=[f"q{number}"])
    with statements_sent() as sent:
        doctor.examine()
    assert not [sql for sql in sent if WRITES.search(sql.replace("last_autovacuum", ""))]
    assert len(sent) <= len(few) + 3


@pytest.mark.databases(*PLAIN)
def test_what_needs_attention_is_among_the_findings(database):
    JobFactory(queue="mail")
    JobFactory(queue="slow", enqueued_at=ago(500), run_at=ago(500))
    WorkerFactory(queues=["slow"])
    codes = [finding.code for finding in doctor.examine() if finding.code != Code.SYSTEM_CHECK]
    assert codes == [Code.NO_WORKER, Code.OLDEST_TOO_OLD]


@pytest.mark.databases(*PLAIN)
def test_messages_of_the_system_checks_are_findings(configure, settings, database):
    configure(LEASE=1, EAGER=True)
    found = {finding.key: finding for finding in examined(Code.SYSTEM_CHECK)}
    assert set(found) == {"djqueue.W001", "djqueue.W011"}  # W001 is a check for deployment
    assert found["djqueue.W011"].severity == Severity.WARNING
    assert found["djqueue.W011"].remedy.startswith("Set a longer lease")
    settings.SILENCED_SYSTEM_CHECKS = ["djqueue.W001"]
    assert [finding.key for finding in examined(Code.SYSTEM_CHECK)] == ["djqueue.W011"]


@pytest.mark.databases(*PLAIN)
def test_system_checks_that_query_are_run_too(database):
    WorkerFactory(queues=["other"])
    assert "djqueue.W012" in {finding.key for finding in examined(Code.SYSTEM_CHECK)}


def test_invalid_settings_end_the_examination_with_a_finding(settings):
    settings.DJQUEUE = {"LEESE": 30}
    [finding] = doctor.examine()
    assert (finding.code, finding.key, finding.severity) == (Code.SYSTEM_CHECK, "djqueue.E001", Severity.ERROR)
    assert "Did you mean 'LEASE'?" in finding.text


@pytest.mark.databases("postgresql", "mysql")
def test_a_database_that_cannot_be_reached_is_a_finding(database, monkeypatch, tmp_path):
    connections[database].close()
    wrong = connections[database].settings_dict | {"HOST": str(tmp_path / "none"), "PORT": ""}
    if database == "mysql":
        wrong |= {"HOST": "127.0.0.1", "PORT": "9"}
    with monkeypatch.context() as patched:
        patched.setattr(connections[database], "settings_dict", wrong)
        [finding] = doctor.examine()
    assert (finding.code, finding.severity, finding.key) == (Code.UNREACHABLE, Severity.ERROR, database)
    assert doctor.examine() == []


@pytest.mark.databases("postgresql")
def test_a_look_without_permission_is_a_finding_and_the_others_follow(database):
    JobFactory()
    with connections[database].cursor() as cursor:
        cursor.execute("DROP ROLE IF EXISTS djqueue_stranger")
        cursor.execute("CREATE ROLE djqueue_stranger")
        cursor.execute("GRANT SELECT ON djqueue_worker, djqueue_kv, django_migrations TO djqueue_stranger")
        try:
            cursor.execute("SET ROLE djqueue_stranger")
            found = doctor.examine()
        finally:
            cursor.execute("RESET ROLE")
            cursor.execute("DROP OWNED BY djqueue_stranger; DROP ROLE djqueue_stranger")
    assert {finding.code for finding in found} == {Code.CHECK_FAILED}
    texts = [finding.text for finding in found]
    assert any("leases: ProgrammingError: permission denied for table djqueue_job" in text for text in texts)
    assert not any("clocks" in text for text in texts)


@pytest.mark.databases("postgresql", "mysql")
def test_a_look_that_takes_too_long_is_cancelled(database, monkeypatch):
    sleep = "SELECT pg_sleep(60)" if database == "postgresql" else "SELECT SLEEP(60)"
    monkeypatch.setattr(doctor, "LOOK_WITHIN", 0.1)
    monkeypatch.setattr(doctor, "LOOKS", {"sleep": lambda found: found.fetch(sleep), "counts": doctor.LOOKS["counts"]})
    [finding] = [finding for finding in doctor.examine() if "sleep" in finding.text]
    assert finding.code == Code.CHECK_FAILED


# The terminal


def run(*arguments: str) -> tuple[int, str]:
    output = io.StringIO()
    try:
        call_command("djqueue", *arguments, stdout=output)
    except SystemExit as done:
        return done.code, output.getvalue()
    return 0, output.getvalue()


@pytest.mark.databases(*PLAIN)
def test_the_command_exits_with_0_if_nothing_is_found(database):
    assert run("doctor") == (0, "Found no problems.\n")
    code, text = run("doctor", "--json")
    assert (code, json.loads(text)) == (0, {"findings": []})


@pytest.mark.databases(*PLAIN)
def test_the_command_prints_a_block_for_each_finding_and_exits_with_1(database, configure, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    configure(LEASE=1)
    JobFactory(queue="mail")
    code, text = run("doctor")
    assert code == 1
    blocks = text.split("\n\n")
    assert blocks[0].splitlines() == [
        "✗ error no_worker",
        "  No worker is running. Due: 1 job of 1 queue (mail).",
        "  Start a worker with manage.py runworker.",
    ]
    assert blocks[1].startswith("! warning system_check\n  djqueue.W011: DJQUEUE['LEASE'] is 1 s")
    assert text.endswith("Found 1 error and 1 warning. docs/reference/doctor.md describes each.\n")
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.databases("sqlite")
def test_warnings_alone_are_a_problem_too(database, configure):
    configure(LEASE=1)
    code, text = run("doctor", "--json")
    [finding] = json.loads(text)["findings"]
    assert (code, finding["severity"]) == (1, "warning")
    assert list(finding) == [field.name for field in fields(Finding)]
