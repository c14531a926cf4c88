"""The steps of a page: paragraphs, files, and commands with their output."""

from __future__ import annotations

import codeop
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w-]*)\s*$")
NAMED_FILE = re.compile(r"^(?:#|//|<!--|/\*) (?P<path>[\w./-]+\.\w+)(?: \((?P<mode>add|change)\))?(?: -->| \*/)?$")
TERMINAL = re.compile(r"^# the (worker|server)$")


class PageError(AssertionError):
    """The page is not written by the convention, or does not do what it says."""


@dataclass
class Paragraph:
    line: int
    text: str


@dataclass
class File:
    line: int
    path: str
    mode: str | None
    text: str


@dataclass
class Statement:
    """What is typed at Python's prompt."""

    source: list[str]
    output: list[str] = field(default_factory=list)

    def complete(self) -> bool:
        return codeop.compile_command("\n".join(self.source), symbol="single") is not None


@dataclass
class Command:
    line: int
    text: str
    output: list[str] = field(default_factory=list)
    interrupted: bool = False
    output_after: list[str] = field(default_factory=list)
    typed: list[Statement] = field(default_factory=list)

    @property
    def foreground(self) -> str | None:
        """The name of the terminal of a command that does not end by itself."""
        if found := re.search(r"\bmanage\.py run(worker|server)\b(?!.*--burst)", self.text):
            return found[1]
        return None


@dataclass
class Later:
    """Output that comes later in the terminal of a command that is still running."""

    line: int
    name: str
    output: list[str]


Step = Paragraph | File | Command | Later


def steps(text: str) -> Iterator[Step]:
    """Yield the steps of a Markdown page."""
    lines = text.splitlines()
    number = 0
    paragraph: list[str] = []
    while number < len(lines):
        fence = FENCE.match(lines[number])
        if not fence and lines[number].strip():
            paragraph.append(lines[number])
            number += 1
            continue
        if paragraph:
            yield Paragraph(number, " ".join(map(str.strip, paragraph)))
            paragraph = []
        number += 1
        if fence:
            first = number
            while number < len(lines) and lines[number].strip() != fence["ticks"]:
                number += 1
            block = [line.removeprefix(fence["indent"]) for line in lines[first:number]]
            yield from steps_of_block(fence["language"], block, first + 1)
            number += 1
    if paragraph:
        yield Paragraph(number, " ".join(map(str.strip, paragraph)))


def steps_of_block(language: str, block: list[str], line: int) -> Iterator[Step]:
    if language == "console":
        yield from console(block, line)
    elif language != "text":
        if not (named := block and NAMED_FILE.match(block[0].strip())):
            raise PageError(f"line {line}: the block does not begin with a comment that names its file")
        yield File(line, named["path"], named["mode"], "\n".join(block[1:]).strip("\n") + "\n")


def console(block: list[str], line: int) -> Iterator[Command | Later]:
    if block and (named := TERMINAL.match(block[0])):
        yield Later(line, named[1], block[1:])
        return
    command: Command | None = None
    for number, text in enumerate(block, line):
        if command and command.text.endswith("\\"):
            command.text = f"{command.text}\n{text}"
        elif text.startswith("$ "):
            if command:
                yield command
            command = Command(number, text[2:])
        elif command is None:
            raise PageError(f"line {number}: output without a command")
        else:
            add_line(command, text)
    if command:
        yield command


def add_line(command: Command, text: str) -> None:
    """Add a line below a command: typed, Ctrl-C, or output."""
    last = command.typed[-1] if command.typed else None
    if text.startswith(">>> "):
        command.typed.append(Statement([text[4:]]))
    elif last and not last.output and text.startswith("...") and not last.complete():
        last.source.append(text[4:])
    elif last:
        last.output.append(text)
    elif text == "^C":
        command.interrupted = True
    elif command.interrupted:
        command.output_after.append(text)
    else:
        command.output.append(text)
