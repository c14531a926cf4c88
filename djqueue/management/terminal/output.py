"""What the subcommands print: lines, tables that fit the terminal, and JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.management.base import OutputWrapper
from django.utils import timezone
from django.utils.termcolors import colorize

from djqueue.core.durations import short

from . import texts

GAP = "  "
NARROWEST = 8  # characters of a column that is cut
NOTHING = "-"

COLOURS = {
    **dict.fromkeys(("alive", "done", "yes"), "green"),
    **dict.fromkeys(("paused", "held", "quiet", "draining", "cancelled"), "yellow"),
    **dict.fromkeys(("dead", "lost", "no worker"), "red"),
    **dict.fromkeys(("claimed", "running"), "cyan"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. The lines of its head are shown below each other."""

    head: str
    right: bool = False  # aligned to the right, for numbers; never cut
    whole: bool = False  # never cut
    keep_start: bool = False  # cut the end; otherwise the start is cut, as the end of a dotted path matters most
    narrowest: int = NARROWEST


def add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


class Output:
    """The standard output and standard error of a command."""

    def __init__(
        self,
        stdout: OutputWrapper,
        stderr: OutputWrapper | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.stdout = stdout
        self.stderr = stdout if stderr is None else stderr
        self.colours = has_colours(stdout, options or {})

    def line(self, text: str = "", *, safe: bool = False) -> None:
        """Print text, in which control characters are escaped, unless it is known to be safe."""
        for line in [text] if safe else text.split("\n"):
            write(self.stdout, line if safe else texts.clean(line))

    def note(self, text: str) -> None:
        """Print what is not data: a question, a warning, progress."""
        write(self.stderr, texts.clean(text))

    def json(self, value: Any, indent: int | None = 2) -> None:
        shown = json.dumps(value, indent=indent, ensure_ascii=False, default=_plain)
        self.line(texts.clean_json(shown), safe=True)

    def table(self, head: Sequence[str | Column], rows: Iterable[Sequence[object]]) -> None:
        """Print aligned columns. If they do not fit the terminal (80 columns if there is none), cut the widest."""
        for line in self.table_lines(head, rows):
            self.line(line, safe=True)

    def table_lines(self, head: Sequence[str | Column], rows: Iterable[Sequence[object]]) -> list[str]:
        columns = [column if isinstance(column, Column) else Column(column) for column in head]
        height = max(column.head.count("\n") for column in columns) + 1
        heads = [[""] * (height - 1 - column.head.count("\n")) + column.head.split("\n") for column in columns]
        lines = [*zip(*heads, strict=True), *([texts.clean(cell) for cell in row] for row in rows)]
        widths = fitted(columns, [max(map(texts.width, cells)) for cells in zip(*lines, strict=True)])
        shown = []
        for number, line in enumerate(lines):
            cells = [self._cell(*cell, number >= height) for cell in zip(columns, line, widths, strict=True)]
            shown.append(GAP.join(cells).rstrip())
        return shown

    def colour(self, word: str) -> str:
        """Return a word that names a state, in its colour if the terminal has colours."""
        return colorize(word, fg=COLOURS[word]) if self.colours and word in COLOURS else word

    def _cell(self, column: Column, cell: str, room: int, in_colour: bool) -> str:
        shown = texts.cut(cell, room, keep_end=not column.keep_start)
        space = " " * (room - texts.width(shown))
        if in_colour:
            shown = self.colour(shown)
        return f"{space}{shown}" if column.right else f"{shown}{space}"


def terminal_width() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def fitted(columns: Sequence[Column], widths: list[int]) -> list[int]:
    """Return the widths with the widest made narrower until a line fits."""
    widths = list(widths)
    over = sum(widths) + len(GAP) * (len(widths) - 1) - terminal_width()
    for _ in range(over):
        possible = [
            (width, position)
            for position, (column, width) in enumerate(zip(columns, widths, strict=True))
            if not column.right and not column.whole and width > column.narrowest
        ]
        if not possible:
            break
        widths[max(possible)[1]] -= 1
    return widths


def has_colours(stdout: Any, options: Mapping[str, Any]) -> bool:
    """Return whether to print colours: on a terminal, unless --no-color or the variable NO_COLOR is set."""
    if options.get("no_color"):
        return False
    if options.get("force_color"):
        return True
    return is_terminal(stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_terminal(stream: Any) -> bool:
    return bool(hasattr(stream, "isatty") and stream.isatty())


def write(stream: OutputWrapper, line: str, ending: str = "\n") -> None:
    """Write a line as it is; characters that the encoding of the stream lacks are written as escapes."""
    try:
        stream.write(line, str, ending)
    except UnicodeEncodeError:
        encoding = getattr(stream, "encoding", None) or "ascii"
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding), str, ending)


def number(value: int) -> str:
    """Return a number for a table: 1,234 or 12.3M."""
    if value < 1_000_000:
        return f"{value:,}"
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M")):
        if value >= size:
            return f"{value / size:.1f}{letter}"
    raise AssertionError("unreachable")


def instant(value: datetime | None) -> str:
    """Return a time in the project's time zone."""
    return NOTHING if value is None else timezone.localtime(value).strftime("%Y-%m-%d %H:%M:%S %Z")


def relative(value: datetime | None, now: datetime) -> str:
    """Return how long ago a time was, or how far it is in the future, for a table."""
    if value is None:
        return NOTHING
    seconds = (now - value).total_seconds()
    return f"{short(seconds)} ago" if seconds >= 0 else f"in {short(-seconds)}"


def discard(stdout: OutputWrapper) -> None:
    """Make the interpreter's own flush at exit succeed, after the reader of the pipe has gone."""
    out: Any = stdout._out
    if out is sys.stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plain(value: Any) -> Any:
    """Return JSON for a value of another type: times as ISO 8601 with their zone."""
    return value.isoformat() if isinstance(value, datetime) else str(value)
