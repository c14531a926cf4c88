from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command


class Printed:
    """What a subcommand has printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        self.lines = out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Printed]:
    """Run a subcommand in this process, in a terminal of 80 columns, and return what it printed."""
    monkeypatch.setenv("COLUMNS", "80")

    def run_subcommand(*arguments: str) -> Printed:
        out, err = StringIO(), StringIO()
        code = 0
        try:
            call_command("djqueue", *map(str, arguments), stdout=out, stderr=err)
        except SystemExit as exit_:
            code = exit_.code
        except CommandError as error:
            code = error.returncode
            err.write(f"{error}\n")
        return Printed(code, out.getvalue(), err.getvalue())

    return run_subcommand
