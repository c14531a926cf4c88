"""Tables that fit, text that cannot control the terminal, exit codes and errors."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import OutputWrapper

from djqueue.core import durations
from djqueue.management.commands.djqueue import SUBCOMMANDS, Command
from djqueue.management.terminal import texts
from djqueue.management.terminal.output import Column, Output, number
from tests.conftest import PLAIN
from tests.factories import (
    DeadJobFactory,
    JobFactory,
    QueueStateFactory,
    ScheduleFactory,
    ThroughputFactory,
    WorkerFactory,
    now,
)

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202eevil\x7f\x00 <b>{{x}}</b> %s"
STORABLE = HOSTILE.replace("\x00", "")
LONG = "very." * 40 + "long_name"
WIDE = "名前" * 40


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0123, "12 ms"), (2.34, "2.3 s"), (45.6, "46 s"), (240, "4 min"), (8000, "2.2 h"), (300_000, "3 d")],
)
def test_durations_in_a_table_have_one_unit(seconds, shown):
    assert durations.short(seconds) == shown


@pytest.mark.parametrize(
    ("typed", "seconds"),
    [("90", 90), ("30s", 30), ("5m", 300), ("1.5h", 5400), ("2 d", 172800), ("1W", 604800), ("0", 0)]
    + [(bad, None) for bad in ("", "h", "-1h", "1y", "1e3", "1h30m", "nan", "9" * 13, "999999w", "\u0661h")],
)
def test_typed_durations(typed, seconds):
    assert durations.parse(typed) == seconds


def test_numbers_are_short():
    assert [number(value) for value in (0, 1234, 999_999, 1_234_567, 2_500_000_000)] == [
        *("0", "1,234", "999,999", "1.2M", "2.5G")
    ]


def test_control_characters_are_escaped():
    cleaned = texts.clean(HOSTILE)
    assert cleaned == r"\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202eevil\x7f\x00 <b>{{x}}</b> %s"
    assert texts.clean("a\n\t\ud800\U000e0041") == r"a\n\t\ud800\U000e0041"
    assert texts.clean("naïve 名前 👩‍🔧") == "naïve 名前 👩‍🔧"
    assert json.loads(texts.clean_json(json.dumps([HOSTILE, "\U000e0041"], ensure_ascii=False, indent=2))) == [
        HOSTILE,
        "\U000e0041",
    ]


def test_widths_are_those_of_a_terminal():
    assert [texts.width(text) for text in ("abc", "名前", "e\u0301", "")] == [3, 4, 1, 0]
    assert texts.cut("名前名前", 5) == "名前…"
    assert texts.cut("名前名前", 4, keep_end=True) == "…前"
    assert texts.cut("abc", 3) == "abc"
    assert texts.cut("abc", 0) == ""


def test_tables_are_aligned_with_wide_characters(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    head = ("NAME", Column("N", right=True), "LAST")
    lines = Output(OutputWrapper(StringIO())).table_lines(head, [("名前", 7, "x"), ("ab", 1234, LONG)])
    assert [texts.width(line.rpartition("  ")[0]) for line in lines] == [10, 10, 10]
    assert max(map(texts.width, lines)) == 40
    assert lines[1].startswith("名前     7")


@pytest.mark.databases(*PLAIN)
def test_every_table_fits_80_columns_whatever_the_names(database, run):
    for name in (LONG[:120], WIDE[:60], STORABLE):
        task = name.replace("\x00", "")
        JobFactory(queue=name, task=task)
        DeadJobFactory(queue=name, task=task, last_error=f"{STORABLE}{LONG}")
        ThroughputFactory(queue=name, minute=now().replace(second=0, microsecond=0), done=10**9, failed=10**9)
        QueueStateFactory(queue=name, paused=True)
        WorkerFactory(identity=name, name=name, queues=[name, name], memory=10**9, finished=10**9, threads=100)
        ScheduleFactory(name=name, task=task, cron="0,15,30,45 1,2,3,4,5,6,7,8,9,10 * * 1,2,3,4,5")
    for arguments in (["stats"], ["jobs"], ["jobs", "--status", "dead"], ["workers"], ["schedules"]):
        lines = run(*arguments).lines
        assert len(lines) > 3
        assert max(map(texts.width, lines)) <= 80, arguments
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", "".join(lines)), arguments


@pytest.mark.databases("sqlite")
def test_no_text_of_a_job_reaches_the_terminal_as_it_is(database, run):
    entry = {"attempt": 1, "message": STORABLE, "traceback": f"Traceback\n\t{STORABLE}\n", "worker": STORABLE}
    job = DeadJobFactory(
        task="tests.app.tasks.echo",
        args=[STORABLE],
        queue=STORABLE,
        last_error=STORABLE,
        errors=[entry],
        worker_ids=[STORABLE.replace(",", "")],
        headers={STORABLE: STORABLE},
        dedup_key=STORABLE,
        schedule=STORABLE,
    )
    for arguments in (["show", job.pk], ["show", job.pk, "--json"], ["jobs", "--json"], ["stats", "--json"]):
        out = run(*arguments).out
        assert r"\u001b" in out or r"\x1b" in out
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out), arguments
    for arguments in (["requeue", "--queue", STORABLE, "--dry-run"], ["jobs", "--task", STORABLE], ["pause", STORABLE]):
        printed = run(*arguments)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", printed.out + printed.err), arguments


def test_states_have_colours_only_if_asked_for(monkeypatch):
    out = StringIO()
    assert Output(OutputWrapper(out)).colour("dead") == "dead"
    assert Output(OutputWrapper(out), options={"force_color": True}).colour("dead") == "\x1b[31mdead\x1b[0m"
    assert Output(OutputWrapper(out), options={"force_color": True}).colour("ok") == "ok"
    out.isatty = lambda: True
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Output(OutputWrapper(out)).colours
    assert not Output(OutputWrapper(out), options={"no_color": True}).colours
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Output(OutputWrapper(out)).colours


def test_characters_that_the_encoding_lacks_are_escaped():
    class Ascii(StringIO):
        encoding = "ascii"

        def write(self, text: str) -> int:
            text.encode("ascii")
            return super().write(text)

    out = Ascii()
    Output(OutputWrapper(out)).line("naïve…")
    assert out.getvalue() == "na\\xefve\\u2026\n"


@pytest.mark.databases("sqlite")
def test_options_of_django_may_follow_the_subcommand(database):
    out = StringIO()
    call_command("djqueue", "stats", "--no-color", "--traceback", stdout=out)
    call_command("djqueue", "--no-color", "stats", "--queue", "x", stdout=out)
    call_command("djqueue", "stats", queue=["x"], json=True, stdout=(called := StringIO()))
    assert json.loads(called.getvalue()) == {"queues": [], "workers": []}


def test_the_documentation_names_every_subcommand_and_option():
    text = Path("docs/reference/commands.md").read_text()
    parser = Command().create_parser("manage.py", "djqueue")
    [chosen] = [action for action in parser._actions if action.dest == "subcommand"]
    sections = dict(re.findall(r"^## `([a-z]+)[^`]*`\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert set(chosen.choices) == set(SUBCOMMANDS)
    for name, subparser in chosen.choices.items():
        assert name in sections, f"docs/reference/commands.md has no section on {name}"
        for action in subparser._actions:
            for option in action.option_strings:
                if action.help != "==SUPPRESS==" and option not in ("-h", "--help"):
                    assert f"`{option}" in sections[name], f"docs/reference/commands.md: {name} {option}"
