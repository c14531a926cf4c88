"""docs/reference/commands.md tells what the exit codes of the commands mean."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from djqueue.management.commands.djqueue import SUBCOMMANDS
from tests.app.tasks import add
from tests.factories import DoneJobFactory

from .tables import DOCS, check_table


def test_exit_codes_of_every_command():
    check_table("reference/commands.md", "exit codes", dict.fromkeys(["runworker", *SUBCOMMANDS], ()))
    assert "djqueue_worker" in (DOCS / "reference" / "commands.md").read_text()


NO_ID = "00000000-0000-7000-8000-000000000000"
EXITS = [
    ("stats", 0),
    ("stats --watch 0", 2),
    ("jobs", 0),
    ("jobs --since yesterday", 2),
    (f"show {NO_ID}", 1),
    ("enqueue tests.app.tasks.add", 0),
    ("enqueue tests.app.tasks.add --wait 0", 1),
    ("enqueue no.such.task", 2),
    (f"cancel {NO_ID} --yes", 1),
    ("cancel --all", 1),
    ("cancel", 2),
    (f"requeue {NO_ID} --yes", 1),
    ("requeue nonsense", 2),
    ("pause nowhere", 1),
    ("pause nowhere --yes", 0),
    ("resume nowhere", 1),
    ("limits", 0),
    ("limits --limit 0", 2),
    ("limit nowhere", 1),
    ("limit nowhere --yes", 0),
    ("limit nowhere --hold soon", 2),
    ("workers", 0),
    ("schedules", 0),
    ("sweep", 0),
    ("sweep --done-older-than 0", 1),
    ("sweep --done-older-than soon", 2),
    ("topics", 0),
    ("health", 1),
    ("doctor", 1),
]


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(("line", "code"), EXITS, ids=[line for line, _ in EXITS])
def test_a_command_exits_with_this_code(database, capsys, line, code):
    add.enqueue(1)  # no worker runs it
    DoneJobFactory()
    try:
        call_command("djqueue", *line.split())
        found = 0
    except CommandError as error:
        found = error.returncode
    except SystemExit as end:
        found = end.code
    assert found == code


def test_the_exit_code_of_every_subcommand_is_tried():
    assert {line.split()[0] for line, _ in EXITS} == set(SUBCOMMANDS)
