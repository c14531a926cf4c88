"""Command lines with any words: an answer, or a line on stderr and an exit code; never a traceback."""

from __future__ import annotations

import argparse
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command, load_command_class
from django.db import transaction
from hypothesis import given
from hypothesis import strategies as st

from djqueue import kv
from djqueue.management.commands.djqueue import SUBCOMMANDS
from djqueue.management.commands.runworker import Command as RunWorker
from tests.bad_input.strategies import HOSTILE_TEXTS, any_text, every_database, examples

# These would wait, or would ask the terminal.
WAITING = {"--watch", "--wait", "--interval"}
CODES = {0, 1, 2}


def options_of(parser: argparse.ArgumentParser) -> list[str]:
    django = {"--settings", "--pythonpath", "--help"} | WAITING
    return sorted({name for name in parser._option_string_actions if name.startswith("--")} - django)


def subparser(name: str) -> argparse.ArgumentParser:
    parser = load_command_class("djqueue", "djqueue").create_parser("manage.py", "djqueue")
    [action] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return action.choices[name]


def run(database: str, *words: str) -> None:
    """Run it as call_command does: a bad command line is a CommandError, and on a terminal it exits with 2."""
    out, err = StringIO(), StringIO()
    with transaction.atomic(using=database):
        kv.set("before", 1)
        try:
            call_command("djqueue", *words, stdout=out, stderr=err)
        except CommandError as error:
            assert str(error)
            assert error.returncode in CODES
        except SystemExit as exit_:
            assert exit_.code in CODES
        assert kv.get("before") == 1
        transaction.set_rollback(True, using=database)


@every_database
@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_a_subcommand_with_hostile_words_answers_or_exits_with_a_code(database, name):
    for text in HOSTILE_TEXTS[:: 1 if database == "sqlite" else 4]:
        run(database, name, text)
    for number, option in enumerate(options_of(subparser(name))):
        run(database, name, option, HOSTILE_TEXTS[number % len(HOSTILE_TEXTS)])


@every_database
@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_a_subcommand_with_any_words_answers_or_exits_with_a_code(database, name):
    words = st.sampled_from(options_of(subparser(name))) | any_text.filter(lambda word: word not in WAITING)

    @examples(10)
    @given(st.lists(words, max_size=5).filter(lambda found: not any(w.startswith(("--w", "--i")) for w in found)))
    def check(found: list[str]) -> None:
        run(database, name, *found)

    check()


worker_words = st.sampled_from(options_of(RunWorker().create_parser("manage.py", "runworker"))) | any_text


@given(st.lists(worker_words, max_size=5))
@examples(300)
def test_the_options_of_a_worker_are_read_or_refused(words):
    refuse_or_read(words)


def test_hostile_options_of_a_worker_are_read_or_refused():
    parser = RunWorker().create_parser("manage.py", "runworker")
    for option in options_of(parser):
        for text in HOSTILE_TEXTS:
            refuse_or_read([option, text])
            refuse_or_read([f"{option}={text}"])


def refuse_or_read(words: list[str]) -> Any:
    command = RunWorker(stdout=StringIO(), stderr=StringIO())
    parser = command.create_parser("manage.py", "runworker")
    try:
        return command.read_options(vars(parser.parse_args(words)))
    except CommandError as error:
        assert str(error)
        assert error.returncode in (1, 2)
    except SystemExit as exit_:  # --help, --version
        assert exit_.code in (0, 2)
