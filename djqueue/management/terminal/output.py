"""What the subcommands print: lines, tables that fit the terminal, and JSON."""

from __future__ import annotations

import json
import shutil
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from typing import Any

from django.core.management.base import OutputWrapper

GAP = "  "
NARROWEST = 8  # characters of a column that is cut


def add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


class Output:
    """The standard output of a command."""

    def __init__(self, stdout: OutputWrapper) -> None:
        self.stdout = stdout

    def line(self, text: str) -> None:
        self.stdout.write(text)

    def json(self, value: Any) -> None:
        self.stdout.write(json.dumps(value, indent=2, ensure_ascii=False))

    def table(self, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print aligned columns. If they do not fit the terminal (80 columns if there is none), cut the widest."""
        lines = [list(head), *([str(cell) for cell in row] for row in rows)]
        widths = fitted([max(map(len, column)) for column in zip(*lines, strict=True)])
        for line in lines:
            cells = [cut(cell, width).ljust(width) for cell, width in zip(line, widths, strict=True)]
            self.stdout.write(GAP.join(cells).rstrip())


def fitted(widths: list[int]) -> list[int]:
    """Return the widths with the widest made narrower until a line fits."""
    room = shutil.get_terminal_size((80, 24)).columns - len(GAP) * (len(widths) - 1)
    widths = list(widths)
    while sum(widths) > room and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def cut(text: str, width: int) -> str:
    """Return a text of at most this width; of a dotted path, the end is kept."""
    return text if len(text) <= width else f"…{text[len(text) - width + 1 :]}"
