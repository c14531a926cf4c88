"""Check the commands of shell blocks: the syntax by bash, the arguments by the program itself if it is ours."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec

from django.core.management import get_commands, load_command_class
from packaging.requirements import Requirement

from tests.docs.pages import ROOT, Block

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Programs of the system. Their arguments are not known here.
OTHERS = set(
    "apt-get bash cat cd chmod cp curl docker echo export git gunicorn journalctl kill kubectl ls mkdir mv nginx nox "
    "pg_dump psql pre-commit pytest rm sed sleep source sqlite3 sudo systemctl touch uvicorn uv watch".split()
)
WRAPPERS = {"sudo", "exec", "nice", "nohup", "env", "time"}
OPERATOR = re.compile(r"[|&;<>()]+")


def check(block: Block) -> None:
    """Raise AssertionError or ValueError if a command of the block cannot be right."""
    for command in commands(block):
        syntax = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True)
        assert syntax.returncode == 0, syntax.stderr
        for words in simple_commands(command):
            check_command(words)


def commands(block: Block) -> list[str]:
    """Return the commands of a console block, or the whole script."""
    if block.language != "console":
        return [block.source]
    source = re.sub(r"\\\n\s*(> )?", "", block.source)
    found = [line[2:] for line in source.splitlines() if line.startswith(("$ ", "# "))]
    assert found, "a console block has no line that begins with '$ '"
    return found


def simple_commands(script: str) -> Iterator[list[str]]:
    """Yield the words of each simple command: without redirections, assignments and wrappers such as sudo."""
    for line in re.sub(r"\\\n", "", script).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if OPERATOR.fullmatch(word) and "<" not in word and ">" not in word:
                yield from unwrapped(words)
                words = []
            else:
                words.append(word)


def unwrapped(words: list[str]) -> Iterator[list[str]]:
    while words and (re.match(r"\w+=", words[0]) or words[0] in WRAPPERS):
        words = words[1:]
        while words and words[0].startswith("-") and words[0] != "--":  # options of the wrapper
            words = words[2:] if words[0] in ("-u", "-n") else words[1:]
    if words:
        yield without_redirections(words)


def without_redirections(words: list[str]) -> list[str]:
    for index, word in enumerate(words):
        if OPERATOR.fullmatch(word):
            return words[:index]
    return words


def check_command(words: list[str]) -> None:
    program, *arguments = words
    program = program.rpartition("/")[2]
    if program.startswith("python") and arguments[:1] == ["-m"]:
        check_module(arguments[1], arguments[2:])
    elif program.startswith("python") and arguments and arguments[0].endswith("manage.py"):
        check_manage(arguments[1:])
    elif program in ("manage.py", "django-admin"):
        check_manage(arguments)
    elif program == "pip":
        check_module("pip", arguments)
    elif program == "make":
        check_make(arguments)
    else:
        known = program in OTHERS or program.startswith("python")
        assert known, f"{program}: not one of ours, and not in shell.OTHERS"


def check_manage(arguments: list[str]) -> None:
    """Parse a management command by its own parser."""
    name, *options = arguments
    aliases = [index + 1 for index, word in enumerate(options) if word == "--database"]
    options = ["default" if index in aliases else word for index, word in enumerate(options)]  # the reader's are others
    app = get_commands()[name]
    command = load_command_class(app, name) if isinstance(app, str) else app
    parser = command.create_parser("manage.py", name)
    try:
        parser.parse_args(options)
    except SystemExit as error:
        raise AssertionError(f"manage.py {shlex.join(arguments)}") from error


def check_module(module: str, arguments: list[str]) -> None:
    if module == "pip" and arguments[:1] == ["install"]:
        parser = argparse.ArgumentParser()
        parser.add_argument("requirements", nargs="*")
        for flag in ("--upgrade", "-U", "--quiet", "-q"):
            parser.add_argument(flag, action="store_true")
        for option in ("--editable", "-e", "--requirement", "-r"):
            parser.add_argument(option)
        for given in parser.parse_args(arguments[1:]).requirements:
            check_requirement(given)
    assert find_spec(module) is not None, f"python -m {module}: no such module"


def check_requirement(given: str) -> None:
    """Parse a requirement; the extras of djqueue must exist."""
    found = Requirement(re.sub(r"^\.(?=\[|$)", PROJECT["name"], given))
    if found.name == PROJECT["name"]:
        assert found.extras <= set(PROJECT["optional-dependencies"]), given


def check_make(arguments: list[str]) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = [word for word in arguments if "=" not in word and not word.startswith("-")]
    assert set(named or ["?"]) <= targets, f"make {shlex.join(arguments)}"
