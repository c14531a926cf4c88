"""Bash, whose folder, variables and functions last from one command to the next."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.packaging.environment import outside
from tests.packaging.tutorial.output import missing_line
from tests.packaging.tutorial.page import PageError, Statement
from tests.packaging.tutorial.terminal import Terminal

PATIENCE = 600.0
# $1 is a file of variables and functions: "source .venv/bin/activate" defines both. $2 is the folder.
RUN = """
source "$1"; cd "$2"
{command}
status=$?
{{ declare -px; declare -f; }} > "$1"
pwd > "$1.folder"
exit $status
"""
START = """
source "$1"; cd "$2"
{command}
"""
PROMPTS = (">>> ", "... ")


class Shell:
    def __init__(self, folder: Path, state: Path, **variables: str) -> None:
        self.folder = folder
        self.state = state
        self.env = outside() | {"TERM": "dumb"} | variables
        state.touch()

    def run(self, command: str, shown: list[str]) -> str:
        """Run a command that ends by itself, and return its output."""
        done = subprocess.run(
            self._bash(RUN, command),
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode != 0:
            raise PageError(f"exited with {done.returncode}:\n{done.stdout}")
        if (line := missing_line(shown, done.stdout)) is not None:
            raise PageError(f"the output has no line {line!r} where the page shows it:\n{done.stdout}")
        self.folder = Path(self.state.with_name(f"{self.state.name}.folder").read_text().rstrip("\n"))
        return done.stdout

    def start(self, command: str) -> Terminal:
        """Start a command in a terminal of its own."""
        return Terminal(self._bash(START, command), cwd=self.folder, env=self.env)

    def prompt(self, command: str, typed: list[Statement]) -> None:
        """Start a command that has Python's prompt, type the statements, and leave it."""
        terminal = self.start(command)
        try:
            if not terminal.wait_for(lambda: terminal.output().endswith(PROMPTS)):
                raise PageError(f"no prompt:\n{terminal.output()}")
            for statement in typed:
                lines = [*statement.source, *([] if statement.complete() else [""])]
                output = "".join(terminal.type(line, PROMPTS) for line in lines)
                if (line := missing_line(statement.output, output)) is not None:
                    raise PageError(f"the output has no line {line!r} where the page shows it:\n{output}")
            terminal.press(b"\x04")
            terminal.leave()
        finally:
            terminal.close()

    def _bash(self, script: str, command: str) -> list[str]:
        return ["bash", "-c", script.format(command=command), "bash", str(self.state), str(self.folder)]
